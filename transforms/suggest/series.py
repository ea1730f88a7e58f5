"""The job file of sensor series."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from beamfeed.contract.config.prepare import Scale
from beamfeed.contract.errors import UserError
from beamfeed.contract.text import sentence
from beamfeed.transforms.sources.columns.numbers import pack
from beamfeed.transforms.sources.readers.time_text import FIRST_YEAR, LAST_YEAR
from beamfeed.transforms.suggest.ahead import REGULAR, ROWS, Outlook, find_outlook
from beamfeed.transforms.suggest.assets import STEADY, Assets, find_assets
from beamfeed.transforms.suggest.columns import Column
from beamfeed.transforms.suggest.dates import part_of_time
from beamfeed.transforms.suggest.draft import Key, Part, Remark, flow
from beamfeed.transforms.suggest.label import classifies, is_flag_of_label, label_keys, named_label, task_of
from beamfeed.transforms.suggest.leaks import find_leaks, numbers_of
from beamfeed.transforms.suggest.options import NO_LABEL, Options
from beamfeed.transforms.suggest.sample import Sample
from beamfeed.transforms.suggest.shared import (
    MOST_EPOCHS,
    Places,
    csv_keys,
    file_keys,
    left_out,
    output_key,
    schedule_of,
    single,
    train_key,
)
from beamfeed.transforms.suggest.timeline import FILLED, GAP, Timeline, lost_rows, survey
from beamfeed.transforms.suggest.times import Time, begins_as_date, counted_times
from beamfeed.transforms.suggest.traits import BETWEEN, Traits
from beamfeed.transforms.suggest.windowing import LENGTHS, Schedule, Shape, choose_schedule, choose_shape

_ROWS_TRAINED = 20_000_000  # of labelled windows in all epochs together, some minutes
_LEAST_EPOCHS = 20
_EVENTS = 0.2  # of rows whose time was there: these are events, and no series
_SPARE_DIVISOR = 10  # times the default of min_divisor: an asset that was not looked at may vary less
_GRID = 0.9  # of the steps that are alike: rows that follow each other so are a series, however the file orders them


@dataclass(frozen=True)
class Series:
    """What makes series of some files.

    Attributes:
      time: that orders the rows; None where they count themselves.
      assets: whose rows they are.
      line: how the rows follow each other.
      features: the columns to train on.
      others: those that are left out, and why.
      label: a column whose name says that it is to be learned, or that the user names.
      learns: whether it is learned, as the user wants it.
      outlook: how it is forecast; None where it is not.
      able: the last feature that could be; None where all are classes.
      drops: whether rows with long runs of missing values are dropped; else they are filled with the mean.
      missing: the fraction of the values of the features that are missing.
      traits: of the values of the features.
    """

    time: Time | None
    assets: Assets
    line: Timeline
    features: tuple[str, ...]
    others: dict[str, str]
    label: Column | None
    learns: bool
    drops: bool
    missing: float
    traits: Traits
    outlook: Outlook | None = None
    able: str | None = None

    @property
    def per_asset(self) -> bool:
        """Whether each asset is to have a scale of its own."""
        return self.traits.apart > BETWEEN and not self.learns

    @cached_property
    def scaled(self) -> Traits:
        """The traits in scaled units."""
        return self.traits.scaled(self.per_asset)


def find_series(
    sample: Sample, columns: Mapping[str, Column], times: Sequence[Time], options: Options
) -> Series | None:
    """What makes series of the files; None if their rows are none.

    Args:
      sample: of the files.
      columns: that they have.
      times: columns that may be the time, the likeliest first.
      options: what the user says.

    Raises:
      UserError: if the user says that they are series, and no column can be learned from.
    """
    if options.kind not in (None, "timeseries"):
        return None
    surely = options.kind == "timeseries" or options.asset is not None
    for time in times:
        assets = find_assets(sample, columns, time, options)
        if assets is not None:
            series = _series(sample, columns, time, assets, options)
            if series is not None and (surely or _follow(series, columns)):
                return series
            if not surely:
                return None
    # Without a time, columns of numbers in several files are taken for series; in one file for a table, unless dates
    # that are too far off say that its rows follow each other, or there is one column and nothing to tell it from.
    counted = {name for name, column in columns.items() if counted_times(sample, column)}
    others = [column for name, column in columns.items() if name not in counted]
    numbers = all(column.kind in ("number", "bool", "nothing") for column in others)
    labels = options.label is not None or any(map(named_label, columns.values()))
    telling = [one for one in columns.values() if not (one.useless or _counts_rows(one))]
    lone = [one.name for one in telling if one.kind == "number" and not one.identity]
    alone = len(lone) == len(telling) == 1 and options.label in (None, NO_LABEL, *lone)
    if not (surely or alone) and (not numbers or labels or (len(sample.files) < 2 and not counted)):
        return None
    assets = find_assets(sample, columns, None, options)
    series = None if assets is None else _series(sample, columns, None, assets, options)
    if series is not None and counted:
        far = dict.fromkeys(counted, f"times before {FIRST_YEAR + 1} or after {LAST_YEAR - 1}; so rows count")
        series = replace(series, others=series.others | far)
    if series is None and surely:
        raise UserError(f"{sample.patterns[0]}: no column of numbers that a model of series could learn from was found")
    return series


def _counts_rows(column: Column) -> bool:
    """Whether a column counts rows, or months of some years as 1-01, and names nothing."""
    if begins_as_date(column) or column.named_id:
        return False
    return column.counts or (column.identity and bool(re.fullmatch(r"[\d\W]+", str(column.example))))


def _follow(series: Series, columns: Mapping[str, Column]) -> bool:
    """Whether rows follow each other as those of a series do, and are no events or cases with a label."""
    line = series.line
    if line.repeated > _EVENTS or max(line.runs, default=0) < LENGTHS[-1]:
        return False
    has_label = series.label is not None and series.outlook is None  # a forecast column is one of the series
    others = [columns[name] for name in series.others]
    words = [column for column in others if column.kind == "text" and not column.constant]
    ids = [column for column in others if column.identity]
    cases = line.disordered and (has_label or (series.outlook is not None and (words or ids)))
    if line.steady >= _GRID and line.repeated < 1 - _GRID and not cases:
        return True
    if line.disordered and (has_label or words or ids):
        return False
    return line.steady >= STEADY or not (2 * len(words) > len(series.features) or len(ids) > 1)


def _series(
    sample: Sample, columns: Mapping[str, Column], time: Time | None, assets: Assets, options: Options
) -> Series | None:
    keys = {*(() if time is None else time.columns), assets.column}
    batches = sample.batches
    target = None if options.label in (None, NO_LABEL) else columns[options.label]
    label = target or next((one for one in columns.values() if named_label(one) and one.name not in keys), None)
    outlook = None if target is None else find_outlook(target, columns, batches, time, assets.groups)
    features: list[str] = []
    unused: dict[str, str] = {}
    for name, column in columns.items():
        if name in keys or (column is target and outlook is None):
            continue
        # What was before is known of what is forecast.
        why = None if column is target else _no_feature(column, batches, time)
        if why is None:
            features.append(name)
        else:
            unused[name] = why
    if not features:  # better than none
        features = [
            name
            for name in unused
            if columns[name].kind == "number" and (columns[name].constant or (sample.wide and columns[name].useless))
        ]
        unused = {name: why for name, why in unused.items() if name not in features}
    if target is not None and outlook is None:
        leaks = find_leaks(batches, target, {name: columns[name] for name in features})
        features = [name for name in features if name not in leaks]
        unused |= {name: f"{text}, so it gives the label away" for name, text in leaks.items()}
    if not features:
        return None
    values = [pack(batch, features) for batch in batches]
    lost = lost_rows(values)
    line = survey(time, assets.groups, lost)
    missing = sum(columns[name].missing for name in features) / len(features)
    traits = Traits(tuple(tuple(values[place][run] for run in runs) for place, runs in line.parts))
    learns = target is not None
    able = next((name for name in reversed(features) if not classifies(columns[name])), None)
    return Series(
        time, assets, line, tuple(features), unused, label, learns, lost is not None, missing, traits, outlook, able
    )


def _no_feature(column: Column, batches: Sequence[pa.RecordBatch], time: Time | None) -> str | None:
    """Why a column is not to be trained on; None if it is."""
    if named_label(column):
        return "its name says that it is a label"
    if column.kind in ("text", "time"):
        return "times" if column.kind == "time" else "text"
    if column.identity:
        return "it names or counts rows"
    if column.useless:
        return column.useless
    if is_flag_of_label(column, numbers_of(batches, column.name)):
        return "zeros and ones, and its name speaks of a label"
    part = part_of_time(time, numbers_of(batches, column.name)) if time is not None and column.whole else None
    return None if part is None else f"the {part} of the time"


def shape_series(sample: Sample, series: Series, longest: int) -> Shape:
    """Windows, split and batch that fit the series.

    Args:
      sample: of the files.
      series: that they hold.
      longest: rows of a window, at most.
    """
    rows, lengths, names, outlook = sample.rows, series.line.assets, series.assets.names, series.outlook
    per_asset = rows / max(1, len(names))
    share = min(1.0, sum(lengths) / len(lengths) / per_asset) if series.assets.every and per_asset else 1.0
    likeness = None if series.learns else series.scaled.likeness
    shape = choose_shape(lengths, series.line.runs, names, rows, longest, share, features=len(series.features),
                         period=series.traits.period, likeness=likeness, ahead=outlook is not None)  # fmt: skip
    if outlook is None:
        return shape
    length, stride, batch = outlook.frame(shape.length, shape.stride, rows)
    why = f"{length} rows to see, {outlook.rows} to forecast"
    return replace(shape, length=length, stride=stride, batch_size=batch, why_length=why, trains="")


def draft_series(sample: Sample, series: Series, shape: Shape, places: Places) -> list[Part]:
    """The sections of the job file."""
    return [
        Key("source", tuple(_source(sample, series)), ("What the files hold.",)),
        Key("prepare", tuple(_prepare(series, shape)), ("From the rows of an asset to windows.",)),
        Key("windows", {"length": shape.length, "stride": shape.stride}, tail=shape.why_length),
        Key("split", shape.split, (sentence(shape.why_split),)),
        *_label(series),
        output_key(places),
        _train(series, shape, places),
    ]  # fmt: skip


def _source(sample: Sample, series: Series) -> list[Part]:
    time, assets = series.time, series.assets
    number = f"{len(assets.names):,}{'' if assets.every else ' or more'} asset{'s' if len(assets.names) > 1 else ''}"
    order = {"from": "row"} if time is None else time.section
    tail = "no column rises from row to row, so that rows count" if time is None else time.why
    if time is not None and time.units.kind in ("integer", "float") and time.units.unit is None:
        tail += "; a plain number: give its unit if it has one"
    return [
        *file_keys(sample, "timeseries", "rows follow each other in time"),
        *([] if sample.wide is None else [Key("reshape", {"wide": single(sample.wide[0])}, (sample.wide[1],))]),
        Key("asset", assets.section, tail=f"{number}: {assets.why}"),
        Key("time", order, tail=tail),
        *csv_keys(sample),
        Key("features", list(series.features), left_out(series.others)),
    ]  # fmt: skip


def _prepare(series: Series, shape: Shape) -> list[Part]:
    line, time = series.line, series.time
    parts: list[Part] = []
    if line.repeated:
        parts.append(Key("duplicates", "first", tail=f"{line.repeated:.2%} of the rows repeat a time"))
    then = "drop" if series.drops else "constant"
    tail = "no value is missing in the sample"
    if series.missing:
        rest = "ends a window" if series.drops else "becomes the mean"
        tail = f"{series.missing:.2%} of the values are missing; a run of more than {FILLED} {rest}"
    fill = "linear" if series.outlook is None else "forward"  # a line to the next value would know what comes
    parts.append(Key("missing", {"fill": fill, "limit": FILLED, "then": then}, tail=tail))
    if time is not None and line.step:
        step = time.span(line.step)
        usual = line.regular >= 0.5
        tail = (
            f"{line.regular:.0%} of the steps are about {step}" if usual else f"The middle one of the steps is {step}"
        )
        that: str | int | float = "that"
        if line.widest > 1.1 * line.step:
            that = time.span(line.widest)
            tail += f", in some assets {that}"
        if line.gaps:
            verb = "is" if line.gaps == 1 else "are"
            text = f"{tail}; {line.gaps:,} {verb} longer than {GAP} times {that}, the longest {time.span(line.longest)}"
            parts.append(Key("max_gap", time.span(GAP * line.widest), (f"{text}: no window crosses one.",)))
        else:
            parts.append(
                Remark(f"{tail}, and none is longer than {GAP} times {that}; max_gap would end windows there.")
            )
        if line.even < 0.9:
            more = " (it goes with split.by: time, not rows)" if shape.split["by"] == "rows" else ""
            text = f"Steps differ. To put rows on a regular grid{more}:"
            parts.append(Remark(text, (f"resample: {{every: {step}}}",)))
    parts.append(_scale(series))
    return parts


def _scale(series: Series) -> Key:
    traits = series.traits
    section: dict[str, Any] = {"how": "standard", "per": "asset" if series.per_asset else "fleet"}
    above: list[str] = []
    if series.per_asset:
        above.append(f"The variance of all values is {traits.apart:.3g} times that of one asset, so each has its own.")
        if (least := traits.least_divisor) < _SPARE_DIVISOR * Scale().min_divisor:
            section["min_divisor"] = 10.0 ** (math.floor(math.log10(least)) - 1)
            above.append(f"The smallest is {least:.1g} times the usual one; what is under min_divisor becomes flat.")
    if traits.flags:
        section["flags"] = "range"
        has, rare = ("A column has", "a rare one is") if traits.flags == 1 else ("Columns have", "rare ones are")
        above.append(f"{has} two values: their distance divides them, so that {rare} not large.")
    tail = "" if above else "mean 0, deviation 1 over all training rows"
    return Key("scale", section, (" ".join(above),) if above else (), tail)


def _label(series: Series) -> list[Part]:
    label = series.label
    if label is None:
        name = series.able
        if series.line.even < REGULAR or name is None:
            return []
        example = (
            f"label: {flow({'ahead': {'rows': ROWS, 'columns': [name]}})}",
            "and in train, model: {name: dlinear}, task: {name: forecast}",
        )
        return [Remark(f"`--label {name}` writes the job that forecasts it instead, with", example)]
    if series.outlook is not None:
        rows, period = series.outlook.rows, series.outlook.period
        why = f"values repeat after {period} rows" if period else "nothing was found to repeat"
        behind = "row behind a window is" if rows == 1 else f"{rows} rows behind a window are"
        return [Key("label", {"ahead": {"rows": rows, "columns": [label.name]}},
                    (f"As --label says, the {behind} forecast; {why}.",))]  # fmt: skip
    section = label_keys(label, at="end")
    if series.learns:
        return [Key("label", section, tail="as --label says: the value at a window's last row")]
    example = (
        f"label: {flow(section)}",
        f"and in train, model: {{name: recurrent, cell: lstm, units: [32]}}, task: {{name: {task_of(label)}}}",
    )
    text = f"{label.name} looks like a label. `--label {label.name}` writes the job that predicts it instead, with"
    return [Remark(text, example)]


def _train(series: Series, shape: Shape, places: Places) -> Key:
    above: tuple[str, ...] = ()
    if series.outlook is not None:
        model: dict[str, Any] = {"name": "dlinear"}
        rate = {"learning_rate": 0.0005, "schedule": {"name": "cosine"}}
        learns = [
            Key("task", {"name": "forecast"}),
            Key("optimizer", rate, tail="small: it begins as ridge regression"),
        ]
        schedule = Schedule()
    elif series.learns and series.label is not None:
        model = {"name": "recurrent", "cell": "lstm", "units": [32]}
        learns = [Key("task", {"name": task_of(series.label)})]
        rows = max(1.0, shape.windows * shape.length)
        epochs = max(_LEAST_EPOCHS, min(MOST_EPOCHS, round(_ROWS_TRAINED / rows)))
        schedule = schedule_of(shape.windows, held_back=bool(shape.split["eval"]), epochs=epochs)
    else:
        latent, explained = series.scaled.latent(shape.length)
        model = {"name": "dense_autoencoder", "latent": latent, "dropout": 0.1}
        above = (
            "An autoencoder: it learns what is normal, so that anomalies stand out. "
            f"{latent} principal component{'s explain' if latent > 1 else ' explains'} {explained:.0%} of the variance "
            f"of the {len(series.features) * shape.length:,} numbers of a window.",
        )
        # The rate falls until the end, and the best weights are kept: there is no early stopping.
        learns = [Key("optimizer", {"schedule": {"name": "cosine", "warmup_steps": 50}})]
        schedule = choose_schedule(shape, len(series.features), latent)
    return train_key(
        Key("model", model), learns, shape.batch_size, places.model, schedule, trains=shape.trains, above=above
    )
