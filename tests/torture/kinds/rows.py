"""What must come out of rows that stand for themselves, of tables and arrays alike, and how it is compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..check import Problem, compare_counts, compare_rejects, compare_statistics
from ..oracle import SPLITS, Expected
from ..reader import read_rows

UNLABELLED, UNUSED = "rows without a label", "rows in no split"
_WORD = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 by the golden ratio
NAN = float("nan")


@dataclass
class ExpectedRows(Expected):
    """What must come out.

    Attributes:
      rows: by split, then by what tells a row from others: its fields by name.
      left_out: how many rows take no part, by the words that the manifest's notes have for it.
      numbers: by feature, float32, the values of the training rows that statistics are of; NaN is missing.
      trained: how many rows train.
    """

    rows: dict[str, dict[Any, dict[str, Any]]] = field(default_factory=lambda: {split: {} for split in SPLITS})
    left_out: dict[str, int] = field(default_factory=lambda: {UNLABELLED: 0, UNUSED: 0})
    numbers: dict[str, np.ndarray] = field(default_factory=dict)
    trained: int = 0


def compare_rows(output: Path, expected: ExpectedRows) -> list[Problem]:
    """All in which a published dataset differs from what must come out."""
    dataset, found = read_rows(output), []
    for split in SPLITS:
        seen, wanted = dataset.rows[split], expected.rows[split]
        missing, alien = sorted(wanted.keys() - seen.keys()), sorted(seen.keys() - wanted.keys())
        if missing:
            found.append(Problem("silent loss", f"{split}: {len(missing)} of {len(wanted)} rows, such as {missing[0]}"))
        if alien:
            found.append(Problem("wrong window", f"{split}: {len(alien)} rows should not be there, such as {alien[0]}"))
        for key in sorted(wanted.keys() & seen.keys()):
            if fault := _differs(seen[key], wanted[key]):
                found.append(Problem("wrong window", f"{split}: row {key}: {fault}"))
                break
    found += [Problem("records", fault) for fault in dataset.faults[:1]]
    if dataset.manifest["kind"] == "array":  # of blocks of rows; a place is the row's number among all
        dataset.rejects = [{**reject, "asset": None} for reject in dataset.rejects]
    found += compare_rejects(dataset.rejects, expected)
    found += compare_counts(dataset.manifest, expected, {split: len(dataset.rows[split]) for split in SPLITS})
    for words, count in expected.left_out.items():
        notes = [note for note in dataset.manifest["notes"] if note.startswith(words)]
        if bool(notes) != bool(count) or (count and f": {count:,} in " not in notes[0]):
            found.append(Problem("counts", f"{count} {words} are expected, {notes or 'none'} are told"))
    return found + compare_statistics(dataset.stats, expected.trained, expected.numbers)


def _differs(seen: dict[str, Any], wanted: dict[str, Any]) -> str | None:
    if seen.keys() != wanted.keys():
        return f"has {sorted(seen)}, expected {sorted(wanted)}"
    for name, value in wanted.items():
        one, other = np.asarray(seen[name]), np.asarray(value)
        if one.shape != other.shape or one.dtype.kind != other.dtype.kind:
            return f"{name}: {one.dtype} {list(one.shape)}, expected {other.dtype} {list(other.shape)}"
        exact = other.dtype.kind not in "fc"
        close = one == other if exact else np.isclose(one, other, rtol=3e-6, atol=2e-5, equal_nan=True)
        if not np.all(close):
            return f"{name}: {seen[name]}, expected {value}"
    return None


def enough(found: ExpectedRows, limit: float, *, files: int, accepted: int, broken: int, rows: int) -> bool:
    """Whether the job goes on; else the exit code that is expected is set.

    Args:
      found: with all rejects.
      limit: of the job, max_rejected_fraction.
      files: that count for it.
      accepted: of these.
      broken: those set aside as a whole.
      rows: of files that are not.
    """
    if not accepted or max(broken / files, len(found.row_rejects) / max(1, rows)) > limit:
        found.exits, found.message = ({1} if accepted else {1, 2}), "rejected|none of the|no asset"
    elif not found.rows["train"]:
        found.exits, found.message = {1}, "train split has no"
    return found.exits == {0}


def check_targets(found: ExpectedRows, name: str, classes: int | None) -> None:
    """A target that is constant over all training rows ends the job, and so does a class that none of them has."""
    seen = {np.asarray(row[name]).tobytes() for row in found.rows["train"].values()}
    if len(seen) < (classes or 2):
        found.exits, found.message = {1}, "every training row|class|never seen"


def scaled(value: float, offset: float, divisor: float) -> np.float32:
    """A number as a model gets it; what is constant is divided by one."""
    return (np.float32(value) - np.float32(offset)) / (np.float32(divisor) or np.float32(1))


def dealt(place: int, split: dict[str, Any]) -> str:
    """The split of a hash of 64 bits."""
    share = place / 2**64
    return "train" if share < split["train"] else "eval" if share < split["train"] + split["eval"] else "test"


def hash_of_row(number: int, start: int) -> int:
    """64 bits of the number of a row and of what its rows have in common."""
    return _mixed((number * _GOLDEN + start) & _WORD)


def hash_of_seed(seed: int) -> int:
    """64 bits of a seed alone."""
    return _mixed((seed + _GOLDEN) & _WORD)


def hash_of_text(text: str, seed: int) -> int:
    """64 bits of a text in UTF-8 and a seed: its length first, then eight bytes at a time."""
    data = text.encode()
    found = _mixed((len(data) * _GOLDEN + (seed ^ 0x5851F42D4C957F2D)) & _WORD)
    for at in range(0, len(data), 8):
        found = _mixed(((found ^ int.from_bytes(data[at : at + 8], "little")) * _GOLDEN) & _WORD)
    return found


def _mixed(bits: int) -> int:
    """The last steps of splitmix64."""
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _WORD
    return bits ^ (bits >> 31)
