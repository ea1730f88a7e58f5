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
from beamfeed.transforms.suggest.sample import Sample
from beamfeed.transforms.suggest.times import Time

_NAMES = frozenset((
    "asset", "machine", "unit", "device", "engine", "pump", "vehicle", "turbine", "station", "plant", "battery",
    "motor", "robot", "patient", "meter", "well", "node", "equipment", "compressor", "truck", "car", "host", "server",
    "logger", "maschine", "anlage", "geraet", "gerät", "series", "item", "subject", "wafer", "sensor",
))  # fmt: skip
_LAST = _NAMES | {"id", "name", "nr", "no", "number", "key"}  # the last word of such a name
_MOSTLY = 0.98  # of the steps from row to row, in which time must rise
_DATES = frozenset(("date", "day", "dt", "ds", "year", "month", "hour", "week", "time"))
_PARTS = re.compile(r"(?i)(part|data|chunk|file|log)?[-_ .]*\d*|\d{4}-?\d\d(-?\d\d)?(T?[-_ ]?\d\d.*)?|part-.*")


@dataclass(frozen=True)
class Assets:
    """How rows are told apart.

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


def find_assets(sample: Sample, columns: Mapping[str, Column], time: Time | None) -> Assets | None:
    """How the rows of assets are told apart, so that times rise in each; None if there is no way in which they do.

    Args:
      sample: of the files.
      columns: that they have.
      time: that orders the rows; without one, rows follow each other as they stand.
    """
    able = _able(columns, () if time is None else time.columns)
    for column in able:
        if tokens(column.name)[-1:] and tokens(column.name)[-1] in _LAST and _NAMES & {*tokens(column.name)}:
            found = _by_column(sample, column)
            if time is None or _rising(time, found.groups) >= _MOSTLY:
                return found
    found = _by_path(sample)
    if time is None or found.column is not None or (rising := _rising(time, found.groups)) == 1:
        return found
    for column in able[:1]:
        rises = _rising(time, (other := _by_column(sample, column)).groups) if column.name == "f0" else 0.0
        if rises > max(rising, _MOSTLY):
            return other  # a file without names, whose first column is the number of a unit
    return found if time.sure or rising >= _MOSTLY else None


def _able(columns: Mapping[str, Column], used: Sequence[str]) -> list[Column]:
    """Columns that may name assets: with some values, each of several rows."""
    return [one for one in columns.values() if one.name not in used and one.rows >= 2 * one.distinct > 2
            and (one.kind == "text" or (one.kind == "number" and one.whole)) and not one.missing]  # fmt: skip


def _by_column(sample: Sample, column: Column) -> Assets:
    names: set[str] = set()
    groups = []
    for one in sample.tables:
        encoded = one.table.column(column.name).combine_chunks().cast(pa.string()).dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        names.update(encoded.dictionary.to_pylist())
        ends = np.cumsum(np.bincount(codes, minlength=len(encoded.dictionary)))
        groups.append(tuple(np.split(np.argsort(codes, kind="stable"), ends[:-1])))
    every = len(sample.tables) == len(sample.files) and all(one.whole for one in sample.tables)
    told = f"{column.name} has {len(names)} values, and the rows of each follow each other in time"
    return Assets({"column": column.name}, told, column.name, tuple(sorted(names)), every, tuple(groups))


def _by_path(sample: Sample) -> Assets:
    paths = [file.path for file in sample.files]
    section, why = _path_section(paths)
    asset = AssetFrom.model_validate(section)
    names = tuple(sorted({name for path in paths if (name := asset_of_path(path, asset)) is not None}))
    groups = tuple((np.arange(one.table.num_rows),) for one in sample.tables)
    return Assets(section, why, None, names, True, groups)


def _path_section(paths: Sequence[str]) -> tuple[dict[str, Any], str]:
    keys = [key_columns(path) for path in paths]
    for key in keys[0]:
        if key.lower() not in _DATES and len({found.get(key) for found in keys}) > 1:
            return {"column": key}, f"folders such as {key}={keys[0][key]} name it"
    folders = [path.rpartition("/")[0] for path in paths]
    stems = [TimeseriesSource.stem(path) for path in paths]
    if len(set(folders)) > 1 and all(_PARTS.fullmatch(stem) for stem in stems):
        return {"from": "path", "pattern": "(?P<asset>[^/]+)/[^/]+$"}, "each folder is one, of files such as " + stems[
            0
        ]
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
