"""Tables: the files of a fleet as rows that stand for themselves, a job on them, and what must come out.

As in oracle.py, the rules are those of docs/tables.md, by plain loops over rows.
"""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from typing import Any

import numpy as np

from ..fleet import Fleet, Part, Plan, make_fleet
from ..oracle import Rejected, expect_mistake, scale_of
from .rows import (
    NAN,
    UNLABELLED,
    UNUSED,
    ExpectedRows,
    check_targets,
    dealt,
    enough,
    hash_of_row,
    hash_of_text,
    scaled,
)

STATES = ["ok", "worn", "broken"]
EDGES = [-2.0, 0.0, 3.5]


def make_table(plan: Plan) -> Fleet:
    """The clean files of a plan, and a job on them as a table."""
    fleet, chance = make_fleet(plan), Random(f"table {plan.seed}")
    for k, part in enumerate(fleet.parts):
        part.extra["row"] = [f"{k}-{i}" for i in range(len(part))]
        part.extra["weight"] = [1 + abs(float(value)) if math.isfinite(value) else 0.5 for value in part.extra["load"]]
    source: dict[str, Any] = {"kind": "table"}
    split: dict[str, Any] = {"by": "row", "train": 0.6, "eval": 0.2, "test": 0.2, "seed": plan.seed % 9}
    if plan.split == "column":
        split = {"by": "column", "column": "phase", "train": ["run", "off"], "eval": ["warm"]}
    elif plan.naming == "column":
        source["key"], split["by"] = "machine", "key"
    labels: list[dict[str, Any]] = []
    if plan.label == "classes":
        labels.append({"column": "state", "classes": STATES})
    elif plan.label:
        labels.append({"column": "load"})
    if plan.weighted:
        labels.append({"name": "weight", "column": "weight", "role": "weight"})
    output: dict[str, Any] = {"compression": plan.compression, "rows_per_record": chance.choice([1, 7, 512])}
    if plan.shards:
        output["shards"] = plan.shards
    fleet.job = {
        "name": "torture",
        "source": source,
        "features": _features(fleet, chance),
        "split": split,
        "output": output,
        "limits": {"max_rejected_fraction": 0.5},
        "launch": {"preprocess": {"workers": plan.workers}},
    }
    if labels:
        fleet.job["label"] = labels
    return fleet


def _features(fleet: Fleet, chance: Random) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {"row": {"type": "pass"}}
    for name in fleet.features:
        how = chance.choice(["none", "standard", "minmax", "robust", "log"])
        found[name] = {"type": "numeric", "scale": how, "missing": chance.choice(["mean", 0.5])}
        found[name]["indicator"] = chance.random() < 0.5
        if how != "none" and chance.random() < 0.3:
            found[name]["clip"] = 1.5
        if chance.random() < 0.2:
            found[name]["required"] = True
    if chance.random() < 0.5:
        found["edge"] = {"type": "bucket", "column": "x0", "edges": EDGES}
    if chance.random() < 0.3:
        found["raw"] = {"type": "pass", "column": fleet.features[-1], "as": "number", "role": "input"}
    if fleet.plan.label != "classes":
        found["state"] = {"type": "categorical", "min_count": chance.choice([1, 20]), "unseen": 1}
    return found


def expect_table(fleet: Fleet) -> ExpectedRows:
    """What must come out of the files of a table."""
    expected = ExpectedRows()
    if expect_mistake(fleet, expected):
        return expected
    rows: list[dict[str, Any]] = []
    accepted = broken = read = 0
    for part in fleet.parts:
        if part.broken is not None:
            expected.rejects.append(Rejected(part.path, part.path, part.broken))
            broken += 1
            continue
        own = [row for i in range(len(part)) if (row := _row(fleet, part, i, expected)) is not None]
        wrong = sum(reject.asset == part.path for reject in expected.row_rejects)
        if len(part) and wrong == len(part):
            expected.rejects.append(Rejected(part.path, part.path, "no row can be used"))
            expected.row_rejects = [reject for reject in expected.row_rejects if reject.asset != part.path]
            broken += 1
        elif len(part):
            read += len(part) if own or wrong else 0  # a file without a row that counts is none that was read
            accepted, rows = accepted + bool(own), rows + own
    for row in rows:
        expected.rows[row["split"]][row["row"]] = row
    expected.assets, expected.rows_read = accepted + broken, read
    if enough(expected, fleet.job["limits"]["max_rejected_fraction"], files=max(1, expected.assets), accepted=accepted,
              broken=broken, rows=read):  # fmt: skip
        _finish(fleet, expected)
    return expected


def _row(fleet: Fleet, part: Part, i: int, expected: ExpectedRows) -> dict[str, Any] | None:
    """What is known of a row that takes part; why another does not is put down."""
    job = fleet.job
    values = {name: float(value) if math.isfinite(value) else NAN
              for name, value in zip(fleet.features, part.values[i], strict=True)}  # fmt: skip
    reason = part.spoilt[i].reason if i in part.spoilt else None
    for name, section in job["features"].items():
        needed = section.get("required") or section.get("role") == "input"
        if needed and math.isnan(values.get(section.get("column", name), 0.0)):
            reason = reason or f"{section.get('column', name)} is missing"
    labels: dict[str, Any] = {}
    for label in job.get("label", ()):
        value = part.extra[label["column"]][i]
        if "classes" in label:
            if value is not None and value not in label["classes"]:
                reason = reason or "not in label.classes"
            value = None if value is None else label["classes"].index(value) if value in label["classes"] else -1
        else:
            with np.errstate(over="ignore"):
                value = np.float32(NAN if value is None else value)
            value = value if math.isfinite(value) else None
        labels[label.get("name", "label")] = value
    key = part.asset[i] if "key" in job["source"] else None
    if key == "" or (key is None and "key" in job["source"]):
        reason = reason or "machine is missing"
    if reason is not None:
        expected.row_rejects.append(Rejected(part.path, part.path, reason))
        return None
    split = job["split"]
    if split["by"] == "column":
        lists = {value: name for name in ("train", "eval", "test") for value in split.get(name, [])}
        to = lists.get(part.extra["phase"][i])
    elif split["by"] == "key":
        to = dealt(hash_of_text(key, split["seed"]), split)  # type: ignore[arg-type]
    else:
        to = dealt(hash_of_row(i, hash_of_text(part.path, split["seed"])), split)
    if to is None or None in labels.values():
        expected.left_out[UNUSED if to is None else UNLABELLED] += 1
        return None
    return {"split": to, "row": part.extra["row"][i].encode(), "values": values, "labels": labels,
            "state": part.extra["state"][i]}  # fmt: skip


def _finish(fleet: Fleet, expected: ExpectedRows) -> None:
    """What is learned of the training rows, and the fields of all."""
    features = fleet.job["features"]
    training = list(expected.rows["train"].values())
    expected.trained = len(training)
    states = Counter(row["state"] for row in training if row["state"] is not None)
    least = features.get("state", {}).get("min_count", 1)
    terms = [s for s, count in sorted(states.items(), key=lambda one: (-one[1], one[0])) if count >= least]
    learned: dict[str, tuple[float, float, float]] = {}
    for name, section in features.items():
        if section["type"] == "numeric":
            column = np.array([_logged(row["values"][name], section) for row in training], np.float32)
            expected.numbers[name] = column
            how = "standard" if section["scale"] == "log" else section["scale"]
            offset, divisor = scale_of(column[:, None], how)
            there = [float(value) for value in column if math.isfinite(value)]
            fill = math.fsum(there) / max(1, len(there))
            if section["missing"] != "mean":
                fill = _logged(section["missing"], section)
            learned[name] = offset[0], divisor[0], fill
    for rows in expected.rows.values():
        for key, row in rows.items():
            rows[key] = _fields(row, features, learned, terms)
    for label in fleet.job.get("label", ()):
        if label.get("role") != "weight":
            check_targets(expected, "label", len(label["classes"]) if "classes" in label else None)


def _logged(value: float, section: dict[str, Any]) -> float:
    if section["scale"] != "log":
        return value
    return float(np.sign(np.float32(value)) * np.log1p(np.abs(np.float32(value))))


def _fields(
    row: dict[str, Any], features: dict[str, Any], learned: dict[str, tuple[float, float, float]], terms: list[str]
) -> dict[str, Any]:
    """The fields of a record's row; of `numbers` and `categories` each column by its name."""
    fields: dict[str, Any] = {"row": row["row"]}
    for name, section in features.items():
        value = row["values"].get(section.get("column", name), NAN)
        if section["type"] == "numeric":
            offset, divisor, fill = learned[name]
            number = scaled(fill if math.isnan(value) else _logged(value, section), offset, divisor)
            limit = section.get("clip", math.inf)
            fields[f"numbers.{name}"] = np.float32(min(max(number, -limit), limit))
            if section["indicator"]:
                fields[f"numbers.{name}_missing"] = np.float32(math.isnan(value))
        elif section["type"] == "bucket":
            bucket = 0 if math.isnan(value) else 1 + sum(value >= edge for edge in section["edges"])
            fields[f"categories.{name}"] = bucket
        elif section["type"] == "categorical":
            state = row["state"]
            place = terms.index(state) + 2 if state in terms else 1
            fields[f"categories.{name}"] = 0 if state is None else place
        elif name == "raw":
            fields[name] = np.float32(value)
    return fields | row["labels"]
