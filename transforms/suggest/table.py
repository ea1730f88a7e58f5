"""The job file of a table: rows that stand for themselves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from typing import Any

import pyarrow as pa

from beamfeed.contract.config.split import SPLIT_WORDS
from beamfeed.contract.dataset.batches import choose_batch
from beamfeed.contract.dataset.fields import field_name
from beamfeed.contract.errors import UserError
from beamfeed.transforms.sources.columns.labels import in_order
from beamfeed.transforms.sources.columns.paths import key_columns
from beamfeed.transforms.sources.readers.time_text import guess_order
from beamfeed.transforms.sources.table.encode import CATEGORIES
from beamfeed.transforms.sources.table.learned import NUMBERS
from beamfeed.transforms.suggest.columns import Column, tokens
from beamfeed.transforms.suggest.dates import date_parts, plain_times, time_cuts
from beamfeed.transforms.suggest.draft import Key, Part, Remark, flow, render
from beamfeed.transforms.suggest.label import (
    Choice,
    choose_label,
    classifies,
    label_keys,
    named_label,
    names_label,
    task_of,
)
from beamfeed.transforms.suggest.leaks import count_classes, find_leaks
from beamfeed.transforms.suggest.options import NO_LABEL, Options
from beamfeed.transforms.suggest.sample import Sample
from beamfeed.transforms.suggest.shared import (
    Places,
    csv_keys,
    file_keys,
    left_out,
    named_splits,
    output_key,
    schedule_of,
    split_by_hash,
    train_key,
)
from beamfeed.transforms.suggest.times import Time, named_time
from beamfeed.transforms.suggest.windowing import HELD_BACK

_WORDS = 64  # of a text
_SPLIT = 200  # rows, from which on some are held back
_RARE = 1000  # values of a category, from which on those that come once count as one
_FEW_OF_CLASS = 100  # rows, of fewer of a class each split is dealt its share
_UNEVEN = 0.2  # of the rows in the rarer of two classes, below which accuracy says little
_TAKEN = ("label", NUMBERS, CATEGORIES)  # names of fields that no text can have


@dataclass(frozen=True)
class Table:
    """What was found of a table.

    Attributes:
      features: what becomes of the columns, by name.
      others: the columns that are left out, and why.
      choice: the column to learn, or some that may be it.
      counts: by the classes of the label the sample's rows, the commonest first; none of numbers.
      times: columns of times, by name.
      key: the column whose rows belong together, as the user says.
      time: the column of times that divides the rows, as the user says.
      declined: whether the user wants no label.
      parted: the column that says which split a row is in, and its values by split.
      is_whole: whether all rows of all files were looked at.
    """

    features: dict[str, Any]
    others: dict[str, str]
    choice: Choice
    counts: Mapping[str, int]
    times: dict[str, Time]
    key: str | None
    time: str | None
    declined: bool
    parted: tuple[str, dict[str, list[str]]] | None = None
    is_whole: bool = False

    @property
    def label(self) -> Column | None:
        """The column to learn."""
        return self.choice.label

    @property
    def shares(self) -> dict[str, float]:
        """By the classes of the label the fraction of the sample's rows with one."""
        total = sum(self.counts.values())
        return {name: count / total for name, count in self.counts.items()}

    @property
    def rare(self) -> str | None:
        """Of two classes the one that few rows have: it is what is looked for, so that metrics had better be of it."""
        return list(self.shares)[1] if len(self.shares) == 2 and min(self.shares.values()) < _UNEVEN else None


def find_table(sample: Sample, columns: Mapping[str, Column], times: Sequence[Time], options: Options) -> Table:
    """What becomes of the columns.

    Args:
      sample: of the files.
      columns: that they have.
      times: columns that may be times.
      options: what the user says.

    Raises:
      UserError: if there is none that a model could learn from, or a column is not what the user says.
    """
    dates = plain_times(times)
    if options.time is not None and options.time not in dates:
        raise UserError(f"--time {options.time}: a table is divided by a column of dates or times, which this is not")
    batches = sample.batches
    parted = _find_parts(batches, columns, options)
    choice = choose_label(
        {name: column for name, column in columns.items() if not (parted and name == parted[0])}, options
    )
    label = choice.label
    features: dict[str, Any] = {}
    fields: set[str] = set()  # that they become
    unused: dict[str, str] = {}
    keys = {options.asset, None if label is None else label.name}
    for name, column in columns.items():
        if name in keys:
            continue
        feature, why = _feature(column, label, dates.get(name))
        if parted is not None and name == parted[0]:
            feature, why = None, "it says which split a row is in"
        if feature is not None and field_name(name) in fields:
            feature, why = None, f"its name as a field, {field_name(name)}, is another column's"
        if feature is None:
            unused[name] = why
        else:
            features[name] = feature
            fields.add(field_name(name))
    counts: dict[str, int] = {}
    if label is not None:
        inputs = {
            name: columns[name]
            for name, feature in features.items()
            if isinstance(feature, str) or feature["type"] == "categorical"
        }
        for name, reason in find_leaks(batches, label, inputs).items():
            unused[name] = f"it tells {label.name} by itself: {reason}"
            del features[name]
        counts = count_classes(batches, label) if classifies(label) else {}
    if not features and label is not None and options.label is None:
        alone = find_table(sample, columns, times, replace(options, label=NO_LABEL))
        return replace(alone, choice=Choice(candidates=(label,)), declined=False)
    if not features:
        reasons = "; ".join(f"{name}: {why}" for name, why in list(unused.items())[:3])
        reasons = reasons or f"{len(columns)} in all"
        raise UserError(f"{sample.patterns[0]}: no column that a model could learn from was found ({reasons})")
    for key in key_columns(sample.files[0].path):
        unused.setdefault(key, "given by the folders")
    return Table(
        dict(starmap(_named, features.items())),
        unused, choice, counts,
        {name: time for name, time in dates.items() if name in features or name == options.time},
        options.asset, options.time, options.label == NO_LABEL, parted, sample.whole,
    )  # fmt: skip


def _find_parts(
    batches: Sequence[pa.RecordBatch], columns: Mapping[str, Column], options: Options
) -> tuple[str, dict[str, list[str]]] | None:
    """The column whose values all say train, eval or test, and these values by split."""
    for name, column in columns.items():
        if column.kind != "text" or not 2 <= column.distinct <= len(SPLIT_WORDS) or name in options.columns.values():
            continue
        values = {str(value) for batch in batches for value in batch.column(name).unique().drop_null().to_pylist()}
        splits = named_splits(values)
        if splits and "eval" not in splits:  # by which the best weights are chosen
            splits["eval"] = splits.pop("test")
        if splits:
            return name, splits
    return None


def _named(name: str, feature: Any) -> tuple[str, Any]:
    """A feature and what it is called: a text has a field of its own, whose name may be that of another one."""
    if isinstance(feature, dict) and feature["type"] == "text" and field_name(name) in _TAKEN:
        return f"{name}_text", {"type": "text", "column": name} | feature
    return name, feature


def _feature(column: Column, label: Column | None, time: Time | None) -> tuple[Any, str]:
    """What becomes of a column; or None, and why."""
    if column.useless:
        return None, column.useless
    if label is not None and named_label(column):
        return None, "its name says that it is a label, too"
    if label is not None and names_label(column.name) & names_label(label.name):
        return None, "by its name it may give the label away"
    if time is not None and (column.kind == "time" or _is_date(column)):
        parts = date_parts(time)
        return ({"type": "date", "parts": parts}, "") if parts else (None, "its hour, weekday and month do not change")
    if column.identity:
        return None, "it names or counts rows"
    if column.kind == "number" and column.rises and _counts_time(column):
        return None, "it counts time"
    if column.kind == "number" and column.named_id and column.whole:
        return "categorical", ""  # numbers that are names of a few things
    if column.kind in ("number", "bool"):
        return "numeric", ""
    if column.kind == "time" or _is_date(column):
        return None, "its times cannot be read without a format"
    if column.prose:
        return {"type": "text", "length": _WORDS}, ""
    if column.distinct > _RARE:
        return {"type": "categorical", "min_count": 2}, ""
    return "categorical", ""


def _counts_time(column: Column) -> bool:
    """Whether the name of a column that never falls says so; a year that many rows share is a fact like others."""
    return named_time(column.name) and (tokens(column.name)[-1] != "year" or 2 * column.distinct > column.rows)


def _is_date(column: Column) -> bool:
    text = str(column.example)
    guess = guess_order([text])
    return any(c.isdigit() for c in text) and (guess.how is not None or bool(guess.unsure))


def draft_table(sample: Sample, table: Table, places: Places, least: int = 1) -> list[Part]:
    """The sections of the job file; classes of fewer rows than the least are left out, where all rows are known."""
    rows = sample.rows
    known = {name: count for name, count in table.counts.items() if count >= least}
    leaves_out = table.is_whole and 2 <= len(known) < len(table.counts)
    if leaves_out:
        table = replace(table, counts=known)
    features = tuple(Key(name, feature) for name, feature in table.features.items())
    split, tail, share = _split(sample, table, rows)
    source = [
        *file_keys(sample, "table", "rows are independent"),
        *([Key("key", table.key, tail="as --asset says: its rows belong together")] if table.key else []),
        *([Key("time", table.time, tail="as --time says")] if table.time else []),
        *csv_keys(sample),
    ]
    return [
        Key("source", tuple(source), ("What the files hold.",)),
        Key("features", features, ("What becomes of the columns: numeric, categorical, bucket, text, date, ...",
                                   *left_out(table.others))),
        *_label(table, least if leaves_out else 1),
        Key("split", split, tail=tail),
        *_in_time(sample, table, rows),
        output_key(places),
        *_train(table, rows * share, places, held_back=rows >= _SPLIT),
    ]  # fmt: skip


def _split(sample: Sample, table: Table, rows: int) -> tuple[dict[str, Any], str, float]:
    """The section `split`, what is said of it, and the share that trains."""
    by_hash = split_by_hash(rows, _SPLIT, "row", "its place")
    if rows < _SPLIT:
        return by_hash
    cuts = time_cuts(sample, table.times[table.time]) if table.time else None
    if cuts is not None:
        return {"by": "time", "eval_from": cuts[0], "test_from": cuts[1]}, "a tenth of the rows each", 0.8
    if table.parted is not None and table.key is None:
        column, values = table.parted
        alone = "" if "test" in values else "; what is not for training chooses the best weights"
        return {"by": "column", "column": column, **values}, f"{column} says it{alone}", 0.8
    if table.key:
        return {"by": "key", **HELD_BACK}, f"all rows of a {table.key} are in one split", 0.8
    if table.shares and min(table.shares.values()) * rows < _FEW_OF_CLASS:
        return {"by": "row", **HELD_BACK, "stratify": True}, "each class has its share in each split", 0.8
    return by_hash


def _label(table: Table, least: int) -> list[Part]:
    label = table.label
    if label is None and table.declined:
        return []
    if label is None:
        guesses = [
            f"{column.name}: {task_of(column)}" + (f", {column.distinct} classes" if classifies(column) else "")
            for column in table.choice.candidates
        ]
        may = f" It may be one of: {'; '.join(guesses)}." if guesses else ""
        return [
            Remark(
                f"No column is clearly the label.{may} `beamfeed init ... --label NAME` writes the job "
                "that predicts it; until then the job only preprocesses. By hand, remove it from the features above, "
                "write train as below, and:",
                ("label: {column: NAME, classes: auto}    # or without classes, where it is a number",),
            )
        ]
    values = f"it has {label.distinct} values in the sample" if classifies(label) else "its values are numbers"
    keys: dict[str, Any] = dict(label_keys(label))
    if table.rare is not None and list(table.shares) != sorted(table.shares):
        values = f"metrics are of the second of two classes, so give classes: {flow(list(table.shares))}"
        if table.is_whole:  # else there may be a third one
            keys["classes"] = list(table.shares)
            values = f"metrics are of the second of two classes, here {table.rare!r}"
    if least > 1:
        keys["classes"] = list(table.counts if table.rare else in_order(table.counts))
        values = f"classes with fewer than {least} rows are set aside: too few to train and to test on"
    return [Key("label", keys, tail=f"{table.choice.why}; {values}")]


def _in_time(sample: Sample, table: Table, rows: int) -> list[Part]:
    """How to test on what comes later, where a column tells it."""
    if table.time or rows < _SPLIT:
        return []
    for name, time in table.times.items():
        cuts = time_cuts(sample, time)
        if cuts is not None:
            text = (
                f"{name} is a time. To test on what comes later than all that trains, as it will be in use, give "
                f"source the key time: {flow(name)}, and in the place of the split above:"
            )
            return [Remark(text, (f"split: {{by: time, eval_from: {cuts[0]}, test_from: {cuts[1]}}}",))]
    return []


def _train(table: Table, rows: float, places: Places, *, held_back: bool) -> list[Part]:
    batch = choose_batch(rows)
    texts = any(isinstance(feature, dict) and feature["type"] == "text" for feature in table.features.values())
    model = {"name": "text", "dropout": 0.3} if texts else {"name": "tabular", "dropout": 0.1, "wide": True}
    schedule = schedule_of(rows, held_back=held_back, epochs=10 if texts else None)
    task: dict[str, Any] = {"name": "classify" if table.label is None else task_of(table.label)}
    tail = "or regress" if table.label is None else ""
    if table.rare is not None:
        task["metrics"] = ["roc_auc", "average_precision"]
        tail = f"{table.shares[table.rare]:.1%} of the rows are {table.rare!r}, so accuracy says little"
    key = train_key(
        Key("model", model, tail="" if texts else "begins as a linear model"),
        [Key("task", task, tail=tail)],
        batch,
        places.model,
        schedule,
        trains=f"about {round(rows):,} rows train",
    )
    if table.label is None:
        return [] if table.declined else [Remark("With a label:", tuple(render([key]).splitlines()))]
    return [key]
