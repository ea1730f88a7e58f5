"""The job file of a table: rows that stand for themselves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from beamfeed.contract.dataset.batches import choose_batch
from beamfeed.contract.dataset.fields import field_name
from beamfeed.contract.errors import UserError
from beamfeed.transforms.sources.columns.paths import key_columns
from beamfeed.transforms.sources.readers import guess_order
from beamfeed.transforms.suggest.columns import LABELS, OTHERS, Column, tokens
from beamfeed.transforms.suggest.draft import Key, Part, Remark
from beamfeed.transforms.suggest.sample import Sample
from beamfeed.transforms.suggest.shared import Places, csv_keys, left_out, output_keys, tell_size
from beamfeed.transforms.suggest.times import named_time

_CLASSES = 20  # values of a label, up to which they are classes
_WORDS = 64  # of a text
_SPLIT = 200  # rows, from which on some are held back
_RARE = 1000  # values of a category, from which on those that come once count as one


@dataclass(frozen=True)
class Table:
    """What was found of a table.

    Attributes:
      features: what becomes of the columns, by name.
      others: the columns that are left out, and why.
      label: the column to learn, if its name says so.
      times: columns of times.
    """

    features: dict[str, Any]
    others: dict[str, str]
    label: Column | None
    times: tuple[str, ...]


def find_table(sample: Sample, columns: Mapping[str, Column]) -> Table:
    """What becomes of the columns.

    Raises:
      UserError: if there is none that a model could learn from.
    """
    labels = [one for one in columns.values() if one.label and one.kind != "nothing"]
    label = labels[0] if len(labels) == 1 else next((one for one in labels if one.distinct > 1), None)
    features: dict[str, Any] = {}
    others: dict[str, str] = {}
    names: set[str] = set()
    for name, column in columns.items():
        if label is not None and name == label.name:
            continue
        found, why = _feature(column, label)
        if found is not None and field_name(name) in names:
            found, why = None, f"its name as a field, {field_name(name)}, is another column's"
        if found is None:
            others[name] = why
        else:
            features[name] = found
            names.add(field_name(name))
    if not features:
        told = "; ".join(f"{name}: {why}" for name, why in list(others.items())[:3])
        raise UserError(f"{sample.patterns[0]}: no column that a model could learn from was found ({told})")
    for key in key_columns(sample.files[0].path):
        others.setdefault(key, "told by the folders")
    times = tuple(name for name, one in features.items() if isinstance(one, dict) and one["type"] == "date")
    return Table(features, others, label, times)


def _feature(column: Column, label: Column | None) -> tuple[Any, str]:
    """What becomes of a column; or None, and why."""
    if column.kind in OTHERS:
        return None, OTHERS[column.kind]
    if column.constant:
        return None, f"always {column.example}"
    if column.identity:
        return None, "it names or counts rows"
    if {*tokens(column.name)} & (LABELS if label is None else {tokens(label.name)[-1]}):
        return None, "its name says that it may tell the label"
    if column.kind == "number" and column.rises and (named_time(column.name) or "time" in tokens(column.name)):
        return None, "it counts time"
    if column.kind in ("number", "bool"):
        return "numeric", ""
    if column.kind == "time" or _is_date(column):
        return {"type": "date", "parts": ["hour", "weekday"]}, ""
    if column.prose:
        return {"type": "text", "length": _WORDS}, ""
    if column.distinct > _RARE:
        return {"type": "categorical", "min_count": 2}, ""
    return "categorical", ""


def _is_date(column: Column) -> bool:
    return any(c.isdigit() for c in str(column.example)) and guess_order([str(column.example)]).how is not None


def draft_table(sample: Sample, found: Table, places: Places) -> list[Part]:
    """The sections of the job file."""
    rows = sum(sample.rows.values())
    split = {"train": 0.8, "eval": 0.1, "test": 0.1} if rows >= _SPLIT else {"train": 1.0, "eval": 0.0, "test": 0.0}
    told = "each row by a hash of its place" if rows >= _SPLIT else f"there are too few rows to hold some back: {rows}"
    features = tuple(Key(name, feature) for name, feature in found.features.items())
    return [
        Key("source", tuple(_source(sample)), ("What the files hold.",)),
        Key("features", features, ("What becomes of the columns: numeric, categorical, bucket, text, date, ...",
                                   *left_out(found.others))),
        *_label(found),
        Key("split", {"by": "row", **split}, tail=told),
        *_in_time(sample, found),
        *output_keys(places),
        *_train(found, rows * split["train"], places),
    ]  # fmt: skip


def _source(sample: Sample) -> list[Part]:
    files = sample.patterns[0] if len(sample.patterns) == 1 else list(sample.patterns)
    return [
        Key("kind", "table", tail="rows stand for themselves; beamfeed schema lists the kinds"),
        Key("files", files, tail=tell_size(sample)),
        *csv_keys(sample),
    ]


def _label(found: Table) -> list[Part]:
    label = found.label
    if label is None:
        return [
            Remark(
                "No column's name says that it is what a model is to tell. Name it, take it out of the features above, "
                "and add train at the end; until then the job preprocesses alone:",
                ("label: {column: NAME, classes: auto}    # or without classes, where it is a number",),
            )
        ]
    if _classifies(label):
        told = f"by its name; it has {label.distinct} values in the sample"
        return [Key("label", {"column": label.name, "classes": "auto"}, tail=told)]
    return [Key("label", {"column": label.name}, tail="by its name; its values are numbers")]


def _classifies(label: Column) -> bool:
    return label.kind in ("bool", "text") or (label.whole and label.distinct <= _CLASSES)


def _in_time(sample: Sample, found: Table) -> list[Part]:
    if not found.times:
        return []
    name = found.times[0]
    said = (
        f"{name} is a time. To test on what comes later than all that trains, as it will be in use, give source the "
        f"key time: {name}, and in the place of the split above:"
    )
    evaluate, test = _cuts([one.table.column(name) for one in sample.tables])
    return [Remark(said, (f"split: {{by: time, eval_from: {evaluate}, test_from: {test}}}",))]


def _cuts(columns: Sequence[pa.ChunkedArray]) -> tuple[str, str]:
    """Days before which eight and nine tenths of the sampled rows are; of times as text any days."""
    if not all(pa.types.is_timestamp(one.type) or pa.types.is_date(one.type) for one in columns):
        return "2024-01-31", "2024-02-15"
    days = np.concatenate(
        [one.cast(pa.date32(), safe=False).drop_null().cast(pa.int32()).to_numpy() for one in columns]
    )
    first, second = np.quantile(days, (0.8, 0.9), method="higher")
    return str(np.datetime64(int(first), "D")), str(np.datetime64(max(int(second), int(first) + 1), "D"))


def _train(found: Table, rows: float, places: Places) -> list[Part]:
    batch = choose_batch(rows)
    texts = any(isinstance(one, dict) and one["type"] == "text" for one in found.features.values())
    model = {"name": "text", "dropout": 0.3} if texts else {"name": "tabular", "units": [64, 64], "dropout": 0.2}
    if found.label is None:
        example = (
            "train:",
            f"  model: {{name: {model['name']}}}",
            "  task: {name: classify}             # or regress",
            f"  feed: {{batch_size: {batch}}}",
            f"  workdir: {places.model}",
        )
        return [Remark("With a label:", example)]
    task = {"name": "classify" if _classifies(found.label) else "regress"}
    return [
        Key("train", (
            Key("model", model),
            Key("task", task),
            Key("feed", {"batch_size": batch}, tail=f"about {round(rows):,} rows train"),
            Key("epochs", 10),
            *([Key("early_stopping", {"patience": 3})] if rows >= _SPLIT * 0.8 else []),
            Key("workdir", places.model, tail="checkpoints, logs, report.png and the exported model"),
        ))
    ]  # fmt: skip
