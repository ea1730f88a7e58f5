"""Arrays side by side, a job on them, and what must come out.

As in oracle.py, the rules are those of docs/arrays.md, by plain loops over rows.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from ..fleet import Fleet, Plan
from ..oracle import SPLITS, Rejected, expect_mistake, scale_of
from .rows import (
    NAN,
    UNLABELLED,
    UNUSED,
    ExpectedRows,
    check_targets,
    dealt,
    enough,
    hash_of_row,
    hash_of_seed,
    scaled,
)

CLASSES = ["broken", "ok", "worn"]


@dataclass
class Arr:
    """An array of the job.

    Attributes:
      group: inputs, outputs, weights or keys.
      values: `[rows, *shape]`.
      section: of the job.
      cuts: rows at which another file begins; `.npy` alone.
      fortran: whether its numbers lie column by column.
      mend: changes of the bytes of its last file.
    """

    group: str
    name: str
    values: np.ndarray
    section: dict[str, Any] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    fortran: bool = False
    mend: list[Callable[[bytes], bytes]] = field(default_factory=list)

    @property
    def is_checked(self) -> bool:
        """Whether NaN and infinity keep a row from being used."""
        return self.group != "keys" and self.values.dtype.kind == "f" and self.section.get("missing") != "keep"


def make_array(plan: Plan) -> Fleet:
    """Clean arrays of a plan, and the job on them."""
    rng, chance = np.random.default_rng([plan.seed, 2]), Random(f"array {plan.seed}")
    rows = plan.rows * 3

    def numbers(*shape: int) -> np.ndarray:
        return np.round(rng.normal(0, 4, (rows, *shape)) * 8) / 8

    def scale() -> str:
        return chance.choice(["none", "standard", "minmax"])

    found = [
        Arr("inputs", "x", numbers(plan.features).astype(chance.choice(["f4", "f8", "f2"])), {"scale": scale()}),
        Arr("inputs", "image", rng.integers(0, 256, (rows, 3, 2)).astype("u1"), {"scale": scale()}),
        Arr("keys", "name", np.array([f"r{i}" for i in range(rows)], chance.choice(["S", "U"]))),
        Arr("keys", "place", numbers().astype("f8")),
    ]
    if plan.missing:
        found.append(Arr("inputs", "wide", numbers(2, 2).astype("f8"), {"scale": scale(), "missing": "keep"}))
    if plan.label == "classes":
        values = rng.choice(np.array(CLASSES), rows).astype(chance.choice(["S", "U"]))
        found.append(Arr("outputs", "y", values, {"classes": chance.choice(["auto", CLASSES])}))
    elif plan.label:
        found.append(Arr("outputs", "y", numbers(*chance.choice([(), (1,), (2,)])).astype("f8")))
    if plan.weighted:
        found.append(Arr("weights", "w", np.abs(numbers()) + 0.5))
    split: dict[str, Any] = {"by": "row", "train": 0.6, "eval": 0.2, "test": 0.2, "seed": plan.seed % 9}
    if plan.split == "time":
        split = {"by": "rows", "train": rows // 2, "eval": rows // 4, "test": rows // 8}
    elif plan.split == "column":
        found.append(Arr("keys", "fold", rng.integers(0, 5, rows)))
        split = {"by": "column", "column": "fold", "train": [0, 1, 2], "eval": [3]}
    form = chance.choice(["npy", "npy", "npz", "packed", "h5"])
    for one in found:
        if form == "npy" and chance.random() < 0.5:
            one.cuts = sorted(chance.sample(range(1, rows), chance.choice([1, 2])))
        if form == "h5" and one.values.dtype.kind == "U":
            one.values = one.values.astype("S")
    output: dict[str, Any] = {"compression": plan.compression, "rows_per_record": chance.choice([1, 7, 16])}
    if plan.shards:
        output["shards"] = plan.shards
    job = {"name": "torture", "source": {"kind": "array"}, "split": split, "output": output,
           "limits": {"max_rejected_fraction": 0.5}, "launch": {"preprocess": {"workers": plan.workers}}}  # fmt: skip
    sizes = {"BLOCK_BYTES": 4000, "LEAST_BYTES": 2000, "CHUNK_BYTES": 1500} if plan.units else {}
    fleet = Fleet(plan, found, job, sizes=sizes)  # type: ignore[arg-type]
    fleet.form = form
    return fleet


def write_array(fleet: Fleet, folder: Path) -> None:
    """Writes the files of all arrays, and what the job says of them."""
    source, path = fleet.job["source"], folder / f"all.{fleet.form.replace('packed', 'npz')}"
    for one in fleet.parts:
        files = f"{one.name}-*.npy" if fleet.form == "npy" else path.name
        source.setdefault(one.group, {}).setdefault(one.name, {**one.section, "files": files})
    if fleet.form == "h5":
        import h5py

        with h5py.File(path, "w") as file:
            for one in fleet.parts:
                chunks = (min(16, len(one.values)), *one.values.shape[1:]) if len(one.name) > 1 else None
                file.create_dataset(one.name, data=one.values, chunks=chunks)
    elif fleet.form == "npy":
        for one in fleet.parts:
            pieces = np.split(one.values, one.cuts)
            for k, piece in enumerate(pieces):
                data = _npy(one, piece)
                for change in one.mend if k == len(pieces) - 1 else ():
                    data = change(data)
                (folder / f"{one.name}-{k}.npy").write_bytes(data)
    else:
        how = zipfile.ZIP_DEFLATED if fleet.form == "packed" else zipfile.ZIP_STORED
        with zipfile.ZipFile(path, "w", how) as archive:
            for one in fleet.parts:
                archive.writestr(f"{one.name}.npy", _npy(one, one.values))
    if fleet.form != "npy":
        data = path.read_bytes()
        for change in (change for one in fleet.parts for change in one.mend):
            data = change(data)
        path.write_bytes(data)


def _npy(one: Arr, values: np.ndarray) -> bytes:
    sink = io.BytesIO()
    np.save(sink, np.asfortranarray(values) if one.fortran else values)
    return sink.getvalue()


def expect_array(fleet: Fleet) -> ExpectedRows:
    """What must come out of arrays."""
    found = ExpectedRows()
    if expect_mistake(fleet, found):
        return found
    parts: list[Arr] = sorted(fleet.parts, key=lambda one: ["inputs", "outputs", "weights", "keys"].index(one.group))  # type: ignore[arg-type, assignment, attr-defined]
    total = len(parts[0].values)
    for i in range(total):
        reason, unlabelled = None, False
        for one in parts:
            value, classes = one.values[i], one.section.get("classes")
            if classes:
                text = _text(value)
                unlabelled |= not text
                if classes != "auto" and text and text not in classes:
                    reason = reason or "not in its classes"
            elif one.is_checked and not np.isfinite(_float32(value)).all():
                unlabelled |= one.group == "outputs"
                reason = reason if one.group == "outputs" else reason or f"^row {i}: {one.name} holds"
        to = _split(i, total, parts, fleet.job["split"])
        if reason is not None:
            found.row_rejects.append(Rejected(None, None, reason))
        elif to is None or unlabelled:
            found.left_out[UNUSED if to is None else UNLABELLED] += 1
        else:
            found.rows[to][i] = {"row": i}
    # Blocks are assets; one without a row that counts is none that was read.
    found.rows_read, found.assets = (None if fleet.plan.units else total), None
    if enough(found, fleet.job["limits"]["max_rejected_fraction"], files=1,
              accepted=sum(map(len, found.rows.values())), broken=0, rows=total):  # fmt: skip
        _finish(parts, found)
    return found


def _finish(parts: list[Arr], found: ExpectedRows) -> None:
    """What is learned of the training rows, and the fields of all."""
    training = list(found.rows["train"])
    found.trained = len(training)
    for one in parts:
        learned = _learned(one, training, found)
        classes = one.section.get("classes")
        if classes == "auto":
            classes = sorted({_text(one.values[i]) for i in training} - {""})
            if any(_text(one.values[i]) not in classes for split in SPLITS for i in found.rows[split]):
                found.exits, found.message = {1}, "in no training row"
                return
        for rows in found.rows.values():
            for i, fields in rows.items():
                fields[one.name] = _field(one, one.values[i], learned, classes)
        if one.group == "outputs":
            check_targets(found, one.name, len(classes) if classes else None)


def _learned(one: Arr, training: list[int], found: ExpectedRows) -> tuple[np.ndarray, np.ndarray] | None:
    """Offset and divisor of a scaled input; each number of a row of one axis has its own."""
    how = one.section.get("scale", "none")
    if how == "none":
        return None
    numbers = _float32(one.values[training]).reshape(-1, one.values.shape[1] if one.values.ndim == 2 else 1)
    for k, column in enumerate(numbers.T):
        name = f"{one.name}[{k}]" if numbers.shape[1] > 1 else one.name
        found.numbers[name] = np.where(np.isfinite(column), column, np.float32(NAN))
    return scale_of(numbers, how)


def _field(one: Arr, value: Any, learned: Any, classes: list[str] | None) -> Any:
    """The value of a row as a record has it."""
    if classes:
        return classes.index(_text(value))
    if learned is not None:
        offset, divisor = learned
        flat = [scaled(number if np.isfinite(number) else NAN, offset[k % len(offset)], divisor[k % len(offset)])
                for k, number in enumerate(_float32(value).reshape(-1))]  # fmt: skip
        return np.array(flat, np.float32).reshape(np.shape(value))
    if one.values.dtype.kind in "SU":
        return value if isinstance(value, bytes) else str(value).encode()
    if one.group in ("outputs", "weights"):
        found = _float32(value)
        return found.reshape(()) if found.size == 1 else found
    return np.asarray(value)


def _float32(value: Any) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.asarray(value).astype(np.float32)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _split(i: int, total: int, parts: list[Arr], split: dict[str, Any]) -> str | None:
    if split["by"] == "rows":
        ends = [split["train"], split["train"] + split["eval"], split["train"] + split["eval"] + split["test"]]
        return next((name for name, end in zip(SPLITS, ends, strict=True) if i < end), None)
    if split["by"] == "column":
        fold = next(one for one in parts if one.name == split["column"]).values[i]
        return next((name for name in SPLITS if fold in split.get(name, [])), None)
    return dealt(hash_of_row(i, hash_of_seed(split["seed"])), split)
