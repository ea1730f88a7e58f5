"""Compares what a run left behind with what the oracle expects."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .oracle import SPLITS, Expected, Window
from .reader import read_dataset

LIMIT_S = 60.0  # of a processor: how long a machine takes that does something else beside says nothing


@dataclass
class Outcome:
    """What a run did.

    Attributes:
      code: the exit code; None where it ended in an exception, or did not end.
      err: all of stderr.
      raised: an exception's traceback.
      seconds: of a processor, that it took.
      output: the folder of the dataset.
      temporary: the folder that was given for temporary files.
    """

    code: int | None
    out: str
    err: str
    raised: str
    seconds: float
    output: Path
    temporary: Path
    process: bool


@dataclass(frozen=True, order=True)
class Problem:
    """What is wrong, by kind, and the first case of it."""

    kind: str
    what: str


def find_problems(
    outcome: Outcome, expected: Expected, compare: Callable[[Path, Any], list[Problem]] | None = None
) -> list[Problem]:
    """All that is wrong with a run; nothing where it is as expected.

    Args:
      outcome: of the run.
      expected: what must come out.
      compare: a dataset with that; left out, windows.
    """
    found = [*_manners(outcome)]
    if outcome.code not in expected.exits:
        said = (outcome.raised or outcome.err).strip().splitlines()
        last = said[-1][:300] if said else ""
        found.append(Problem("exit code", f"{outcome.code}, expected {sorted(expected.exits)}: {last}"))
        return found
    if outcome.code != 0:
        if not re.search(expected.message, outcome.err):
            found.append(Problem("message", f"{outcome.err.strip()[:300]!r} says nothing of {expected.message!r}"))
        if (outcome.output / "manifest.json").exists():
            found.append(Problem("published", "a job that failed published a dataset"))
        return found
    try:
        return [*found, *(compare or compare_windows)(outcome.output, expected)]
    except Exception as error:
        return [*found, Problem("unreadable", f"{type(error).__name__}: {error}")]


def _manners(outcome: Outcome) -> list[Problem]:
    """How it ended: in time, without a traceback, with one line, and nothing left behind."""
    found = []
    if outcome.seconds > LIMIT_S:
        found.append(Problem("hang", f"{outcome.seconds:.0f} s"))
    if outcome.raised:
        found.append(Problem("traceback", outcome.raised.strip().splitlines()[-1][:300]))
    elif "Traceback" in outcome.err + outcome.out:
        found.append(Problem("traceback", (outcome.err + outcome.out).strip().splitlines()[-1][:300]))
    lines = outcome.err.strip().splitlines()
    if outcome.code in (1, 2) and len(lines) != 1:
        found.append(Problem("lines", f"{len(lines)} lines on stderr: {outcome.err.strip()[:300]!r}"))
    if outcome.code == 0 and outcome.process and lines:
        found.append(Problem("lines", f"on success: {outcome.err.strip()[:300]!r}"))
    if (outcome.output / "lock.json").exists():
        found.append(Problem("leftover", "lock.json"))
    temporary = outcome.output.glob("data-*/tmp")
    logs = re.compile(r"beamfeed-failure-\w+\.log")
    unclean = [path for path in temporary if not all(logs.fullmatch(one.name) for one in path.iterdir())]
    for path in [*unclean, *outcome.output.glob("*.tmp-*"), *_left(outcome)]:
        found.append(Problem("leftover", f"{path.name} after exit code {outcome.code}"))
    return found


def _left(outcome: Outcome) -> list[Path]:
    """What is left among temporary files; in this process, which goes on, TensorFlow still has its source there."""
    left = sorted(outcome.temporary.glob("*"))
    of_tensorflow = re.compile("__autograph_generated.*|__pycache__")
    return left if outcome.process else [path for path in left if not of_tensorflow.fullmatch(path.name)]


def compare_windows(output: Path, expected: Expected) -> list[Problem]:
    """All in which a published dataset of windows differs from what must come out."""
    dataset = read_dataset(output)
    found = [Problem("records", fault) for fault in dataset.faults[:1]]
    if sorted(dataset.features) != sorted(expected.features):
        return [*found, Problem("features", f"{dataset.features[:20]}, expected {expected.features[:20]}")]
    order = [dataset.features.index(name) for name in expected.features]  # a glob takes them in the files' order
    for split in SPLITS:
        seen = {key: replace(one, values=one.values[:, order]) for key, one in dataset.windows[split].items()}
        found += _windows(split, seen, expected.windows[split], expected)
    found += compare_rejects(dataset.rejects, expected)
    found += compare_counts(dataset.manifest, expected, {split: len(dataset.windows[split]) for split in SPLITS})
    columns = dict(zip(expected.features, expected.training.T, strict=True))
    return found + compare_statistics(dataset.stats, len(expected.training), columns)


def compare_counts(manifest: dict[str, Any], expected: Expected, held: dict[str, int]) -> list[Problem]:
    """What the manifest counts, and what its shards hold of each split."""
    counts, found = manifest["counts"], []
    told = {"assets": expected.assets, "rows_read": expected.rows_read, "rejected_rows": len(expected.row_rejects),
            "rejected_assets": len({r.asset for r in expected.rejects if r.asset is not None})}  # fmt: skip
    for name, value in told.items():
        if value is not None and counts[name] != value:
            found.append(Problem("counts", f"{name} is {counts[name]}, expected {value}"))
    for split in SPLITS:
        if manifest["splits"][split]["windows"] != held[split]:
            found.append(Problem("counts", f"the manifest counts other windows of {split} than its shards hold"))
    return found


def _windows(
    split: str, seen: dict[tuple[str, int], Window], wanted: dict[tuple[str, int], Window], expected: Expected
) -> list[Problem]:
    found = []
    missing, alien = sorted(wanted.keys() - seen.keys()), sorted(seen.keys() - wanted.keys())
    if missing:
        rejected = {reject.asset for reject in expected.rejects}
        found.append(Problem("silent loss", f"{split}: {len(missing)} of {len(wanted)} windows are not there, "
                             f"such as {missing[0]}{' of a reject' if missing[0][0] in rejected else ''}"))  # fmt: skip
    if alien:
        found.append(Problem("wrong window", f"{split}: {len(alien)} should not be there, such as {alien[0]}"))
    for key in sorted(wanted.keys() & seen.keys()):
        if fault := _differs(seen[key], wanted[key]):
            found.append(Problem("wrong window", f"{split}: {key}: {fault}"))
            break
    return found


def _differs(seen: Window, wanted: Window) -> str | None:
    if seen.values.shape != wanted.values.shape:
        return f"shape {seen.values.shape}, expected {wanted.values.shape}"
    if not np.allclose(seen.values, wanted.values, rtol=2e-6, atol=2e-5):
        row, column = np.argwhere(~np.isclose(seen.values, wanted.values, rtol=2e-6, atol=2e-5))[0]
        return f"row {row}, feature {column}: {seen.values[row, column]}, expected {wanted.values[row, column]}"
    for name in ("first_time", "last_time"):
        if getattr(seen, name) not in (-1, getattr(wanted, name)):
            return f"{name} {getattr(seen, name)}, expected {getattr(wanted, name)}"
    if (seen.label is None) != (wanted.label is None) or (
        seen.label is not None and not math.isclose(seen.label, wanted.label, rel_tol=1e-6, abs_tol=1e-6)
    ):
        return f"label {seen.label}, expected {wanted.label}"
    return None


def compare_rejects(seen: list[dict[str, Any]], expected: Expected) -> list[Problem]:
    """Every reject is expected, every one that is expected is there, and each says asset, file, place and reason."""
    found = []
    for reject in seen:
        if not all(isinstance(reject[key], str) and reject[key].strip() for key in ("file", "place", "reason")):
            found.append(Problem("reject", f"says not all: {reject}"))
    for wanted in [*expected.rejects, *expected.row_rejects]:
        own = [r for r in seen if r["asset"] == wanted.asset and (wanted.file is None or wanted.file in r["file"])]
        if not own:
            found.append(Problem("reject", f"{wanted} is not among {[(r['asset'], r['reason'][:60]) for r in seen]}"))
        elif not any(re.search(wanted.reason, f"{r['place']}: {r['reason']}") for r in own):
            found.append(Problem("reason", f"{own[0]['place']}: {own[0]['reason'][:200]}; expected {wanted.reason!r}"))
    names = {wanted.asset for wanted in [*expected.rejects, *expected.row_rejects]}
    for reject in seen:
        if reject["asset"] not in names:
            found.append(Problem("reject", f"not expected: {str(reject)[:300]}"))
            break
    return found


def compare_statistics(stats: dict[str, Any], rows: int, columns: dict[str, np.ndarray]) -> list[Problem]:
    """Those of the training rows of accepted assets, and of nothing else.

    Args:
      stats: what is published.
      rows: how many train.
      columns: float32 [n] of each feature, its values in these; NaN is missing.
    """
    found = []
    if stats["rows"] != rows:
        found.append(Problem("statistics", f"of {stats['rows']} rows, expected {rows}"))
    for name, values in columns.items():
        if name not in stats["features"]:
            found.append(Problem("statistics", f"{name} is not among {list(stats['features'])}"))
            continue
        column = values.astype(np.float64)
        there = column[np.isfinite(column)]
        told = stats["features"][name]
        wanted = {"count": len(there), "missing": len(column) - len(there)}
        if len(there):
            wanted |= {
                "mean": math.fsum(there) / len(there),
                "std": there.std(),
                "min": there.min(),
                "max": there.max(),
            }
        # What float64 loses where large values cancel out.
        lost = 1e-6 + 1e-14 * float(np.abs(there).max(initial=0))
        for key, value in wanted.items():
            if told[key] is None or not math.isclose(told[key], value, rel_tol=1e-6, abs_tol=lost):
                found.append(Problem("statistics", f"{name}: {key} is {told[key]}, expected {value}"))
                break
    return found
