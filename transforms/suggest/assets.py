"""Which rows belong to one asset: by a column, by the path, or each file by itself."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from beamfeed.contract.config.sources.timeseries import AssetFrom, TimeseriesSource
from beamfeed.contract.errors import UserError
from beamfeed.transforms.sources.columns.paths import key_columns
from beamfeed.transforms.sources.timeseries.assets import asset_of_path, check_stems
from beamfeed.transforms.suggest.columns import Column, tokens
from beamfeed.transforms.suggest.options import Options
from beamfeed.transforms.suggest.sample import Sample
from beamfeed.transforms.suggest.timeline import survey
from beamfeed.transforms.suggest.times import Time

_NAMES = frozenset((
    "asset", "machine", "unit", "device", "engine", "pump", "vehicle", "turbine", "station", "plant", "battery",
    "motor", "robot", "patient", "meter", "well", "node", "equipment", "compressor", "truck", "car", "host", "server",
    "logger", "maschine", "anlage", "geraet", "gerät", "series", "item", "subject", "wafer", "sensor",
))  # fmt: skip
_GROUPS = frozenset((  # that say so where a time is there once for each of their values
    "symbol", "ticker", "stock", "coin", "currency", "pair", "location", "site", "city", "country", "region", "state",
    "county", "district", "province", "area", "zone", "room", "building", "house", "household", "store", "shop",
    "product", "sku", "customer", "user", "person", "name", "company", "team", "player", "airport", "route", "line",
    "channel", "code", "iso", "group", "category", "entity",
))  # fmt: skip
_OF_GROUP = 4  # rows, on average, from which on the values of a column may be groups
_GROUPS_MOST = 1000  # in the sample: of more, each would have too few rows
_TWICE = 0.02  # of the rows whose time another one of their asset has: more say that there are several assets
STEADY = 0.6  # of the steps from row to row, that are between half and twice the usual one
_LAST = _NAMES | {"id", "name", "nr", "no", "number", "key"}  # the last word of such a name
_MOSTLY = 0.98  # of the steps from row to row, in which time must rise
_DATES = frozenset(("date", "day", "dt", "ds", "year", "month", "hour", "week", "time"))
_SEASONS = _DATES | {"weekday", "quarter", "season", "minute"}  # which no asset is named after
_PARTS = re.compile(r"(?i)(part|data|chunk|file|log)?[-_ .]*\d*|\d{4}-?\d\d(-?\d\d)?(T?[-_ ]?\d\d.*)?|part-.*")


@dataclass(frozen=True)
class Assets:
    """How the rows of assets are distinguished.

    Attributes:
      section: `source.asset` of the job file.
      why: what says so, for a comment.
      column: of the files, if one of them names the asset.
      names: all of them, as far as they are known.
      every: whether these are all.
      groups: the rows of each asset in each of the sampled tables, int64.
    """

    section: dict[str, Any]
    why: str
    column: str | None
    names: tuple[str, ...]
    every: bool
    groups: tuple[tuple[np.ndarray, ...], ...]


def find_assets(sample: Sample, columns: Mapping[str, Column], time: Time | None, options: Options) -> Assets | None:
    """How the rows of assets are told apart, so that times rise in each; None if there is no way in which they do.

    Args:
      sample: of the files.
      columns: that they have.
      time: that orders the rows; without one, rows follow each other as they stand.
      options: what the user says.
    """
    if options.asset is not None:
        return _by_column(sample, options.asset, "as --asset says")
    able = _able(columns, () if time is None else time.columns)
    for column in able:
        if {*tokens(column.name)[-1:]} & _LAST and _NAMES & {*tokens(column.name)}:
            named = _by_column(sample, column.name)
            if time is None or _rising(time, named.groups) >= _MOSTLY:
                return named
    by_path = _by_path(sample)
    if time is None:
        return by_path
    if survey(time, by_path.groups).repeated > _TWICE and (grouped := _by_values(sample, able, time)) is not None:
        return grouped
    rising = _rising(time, by_path.groups)
    if able and able[0].name == "f0":  # a file without names, whose first column is the number of a unit
        numbered = _by_column(sample, "f0")
        if _rising(time, numbered.groups) > max(rising, _MOSTLY):
            return numbered
    return by_path if time.sure or rising >= _MOSTLY else None


def _by_values(sample: Sample, able: Sequence[Column], time: Time) -> Assets | None:
    """Assets by a column in whose values each time is there once, and follows the one before in steady steps."""
    named = [column for column in able if {*tokens(column.name)[-1:]} & (_GROUPS | _LAST)]
    words = [column for column in able if column.kind == "text" and not {*tokens(column.name)} & _SEASONS]
    for column in dict.fromkeys((*named, *words)):
        if column.distinct > _GROUPS_MOST or column.rows < _OF_GROUP * column.distinct:
            continue
        grouped = _by_column(sample, column.name)
        line = survey(time, grouped.groups)
        if line.repeated <= _TWICE / 2 and line.steady >= STEADY:
            return grouped
    return None


def _able(columns: Mapping[str, Column], used: Sequence[str]) -> list[Column]:
    """Columns that may name assets: with some values, each of several rows."""
    return [col for col in columns.values() if col.name not in used and col.rows >= 2 * col.distinct > 2
            and (col.kind == "text" or (col.kind == "number" and col.whole)) and not col.missing]  # fmt: skip


def _by_column(sample: Sample, name: str, why: str = "") -> Assets:
    names: set[str] = set()
    groups = []
    for batch in sample.batches:
        encoded = batch.column(name).cast(pa.string()).fill_null("").dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        names.update(encoded.dictionary.to_pylist())
        ends = np.cumsum(np.bincount(codes, minlength=len(encoded.dictionary)))
        groups.append(tuple(np.split(np.argsort(codes, kind="stable"), ends[:-1])))
    why = why or f"{name} has {len(names)} values, and the rows of each follow each other in time"
    return Assets({"column": name}, why, name, tuple(sorted(names)), sample.whole, tuple(groups))


def _by_path(sample: Sample) -> Assets:
    paths = [file.path for file in sample.files]
    section, why = _path_section(paths)
    asset = AssetFrom.model_validate(section)
    names = tuple(sorted({name for path in paths if (name := asset_of_path(path, asset)) is not None}))
    groups = tuple((np.arange(batch.num_rows),) for batch in sample.batches)
    return Assets(section, why, None, names, True, groups)


def _path_section(paths: Sequence[str]) -> tuple[dict[str, Any], str]:
    keys = [key_columns(path) for path in paths]
    for key in keys[0]:
        if key.lower() not in _DATES and len({values.get(key) for values in keys}) > 1:
            return {"column": key}, f"folders such as {key}={keys[0][key]} name it"
    folders = [path.rpartition("/")[0] for path in paths]
    stems = [TimeseriesSource.stem(path) for path in paths]
    if len(set(folders)) > 1 and all(_PARTS.fullmatch(stem) for stem in stems):
        return {
            "from": "path",
            "pattern": "(?P<asset>[^/]+)/[^/]+$",
        }, f"each folder is one, of files such as {stems[0]}"
    section = {"from": "path"}
    try:
        check_stems(paths, AssetFrom.model_validate(section))
    except UserError:
        pattern = r"(?P<asset>[^/]+/[^/]+)\.[A-Za-z]" if len(set(folders)) > 1 else r"(?P<asset>[^/]+)$"
        return {"from": "path", "pattern": pattern}, "files of several folders have one name"
    return section, f"each file is one, such as {stems[0]}"


def _rising(time: Time, groups: Sequence[Sequence[np.ndarray]]) -> float:
    """The fraction of the steps from row to row of each asset in which time rises."""
    rises = steps = 0
    for ticks, valid, parts in zip(time.ticks, time.valid, groups, strict=True):
        for rows in parts:
            step = np.diff(ticks[rows][valid[rows]])
            rises += int((step > 0).sum())
            steps += len(step)
    return rises / steps if steps else 0.0
