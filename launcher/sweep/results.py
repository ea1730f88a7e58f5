"""What a sweep has found: the leaderboard as a table and as Parquet, and the best job as a file."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from beamfeed.contract import storage
from beamfeed.contract.text import table
from beamfeed.launcher.display.words import clock
from beamfeed.launcher.sweep.space import Search, job_values
from beamfeed.launcher.sweep.study import current_trials
from beamfeed.launcher.sweep.trials import trial_text

if TYPE_CHECKING:
    import optuna

LEADERBOARD, BEST, PICTURE = "leaderboard.parquet", "best.yaml", "sweep.png"
SHOWN = 10  # trials that the table has
LONGEST = 70  # letters of a reason there


@dataclass(frozen=True)
class Place:
    """A trial on the leaderboard.

    Attributes:
      number: of the trial.
      state: done, pruned, failed or running.
      value: of the metric; of a pruned one that of its last evaluation that counted.
      params: the values by key, as the job has them.
      epochs: that were run; None of one that did not end well.
      seconds: that it took.
      reason: why it failed.
    """

    number: int
    state: str
    value: float | None
    params: dict[str, Any]
    epochs: int | None
    seconds: float | None
    reason: str


@dataclass(frozen=True)
class Leaderboard:
    """The trials of a sweep, the best first; those that did not end well come last.

    Attributes:
      metric: that decides.
      high_is_good: whether high values of it are.
      places: of the trials.
    """

    metric: str
    high_is_good: bool
    places: list[Place]

    @property
    def best(self) -> Place | None:
        """The best one; None where no trial has ended well."""
        return self.places[0] if self.places and self.places[0].state == "done" else None


def read_leaderboard(search: Search, study: "optuna.Study") -> Leaderboard:
    """The leaderboard so far."""
    trials = current_trials(study)
    scored = [trial.user_attrs for trial in trials if "metric" in trial.user_attrs]
    metric, high = (scored[0]["metric"], scored[0]["mode"] == "max") if scored else ("loss", False)
    names = {"COMPLETE": "done", "PRUNED": "pruned", "FAIL": "failed"}

    def place(trial: "optuna.trial.FrozenTrial") -> Place:
        score = trial.value if trial.state.name in ("COMPLETE", "PRUNED") else None
        attributes = trial.user_attrs
        return Place(
            trial.number,
            names.get(trial.state.name, "running"),
            None if score is None else -score if high else score,
            job_values(search.dimensions, trial.params) if len(trial.params) == len(search.dimensions) else {},
            attributes.get("epochs"),
            attributes.get("seconds"),
            attributes.get("reason", ""),
        )

    def rank(place: Place) -> tuple[int, float, int]:
        value = 0.0 if place.value is None else -place.value if high else place.value
        return ["done", "pruned", "running", "failed"].index(place.state), value, place.number

    return Leaderboard(metric, high, sorted(map(place, trials), key=rank))


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """The last part of each key, as far as that tells them apart."""
    last = [key.rpartition(".")[2] for key in keys]
    return {key: name if last.count(name) == 1 else key.partition(".")[2] for key, name in zip(keys, last, strict=True)}


def shown(value: Any) -> str:
    """A value in few letters."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {shown(item)}" for key, item in value.items()) + "}"
    return f"[{', '.join(map(shown, value))}]" if isinstance(value, list) else str(value)


def describe(search: Search, board: Leaderboard) -> str:
    """The table, and what can be done next."""
    keys = [dimension.key for dimension in search.dimensions]
    names = short_names(keys)
    ran = [] if "epochs" in names.values() else ["epochs"]
    rows: list[list[object]] = [["", "trial", _metric_name(board), *names.values(), *ran, "took", ""]]
    for rank, entry in enumerate(board.places[:SHOWN], 1):
        values = [shown(entry.params[key]) if key in entry.params else "" for key in keys]
        took = "" if entry.seconds is None else clock(entry.seconds)
        value = "" if entry.value is None else f"{entry.value:.6g}"
        reason = entry.reason if len(entry.reason) <= LONGEST else f"{entry.reason[: LONGEST - 4]} ..."
        state = "" if entry.state == "done" else entry.state + (f": {reason}" if reason else "")
        epochs = ["" if entry.epochs is None else entry.epochs] if ran else []
        place = f"{rank}" if entry.state == "done" else ""
        rows.append([place, f"{entry.number}", value, *values, *epochs, took, state])
    lines = [line.rstrip() for line in _aligned(rows)]
    if more := len(board.places) - SHOWN:
        lines += [f"and {more:,} more"] if more > 0 else []
    lines += ["", f"leaderboard  {storage.join(search.folder, LEADERBOARD)}"]
    if board.best is not None:
        best = storage.join(search.folder, BEST)
        lines += [f"picture      {storage.join(search.folder, PICTURE)}", f"best job     {best}"]
        predict = f"beamfeed predict {shlex.quote(best)}"
        lines += ["", f"its model is in {search.trial_folder(board.best.number)}; next: {predict}"]
    return "\n".join(lines)


def _aligned(rows: Sequence[Sequence[object]]) -> list[str]:
    """A table whose last column, of words, stands to the left."""
    heads = table([row[:-1] for row in rows], left=0)
    width = max(map(len, heads))
    return [f"{head.ljust(width)}  {row[-1]}" for head, row in zip(heads, rows, strict=True)]


def _metric_name(board: Leaderboard) -> str:
    return board.metric.replace("_", " ")


def write_results(search: Search, board: Leaderboard) -> None:
    """Writes the leaderboard, and the job of the best trial."""
    _write_leaderboard(search, board)
    if board.best is not None:
        storage.write_text(storage.join(search.folder, BEST), best_text(search, board, board.best))


def _write_leaderboard(search: Search, board: Leaderboard) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    places = board.places
    columns: dict[str, Any] = {
        "rank": pa.array([n if place.state == "done" else None for n, place in enumerate(places, 1)], pa.int64()),
        "trial": pa.array([place.number for place in places], pa.int64()),
        "state": [place.state for place in places],
        board.metric: pa.array([place.value for place in places], pa.float64()),
    }
    for dimension in search.dimensions:
        columns[dimension.key] = _column([place.params.get(dimension.key) for place in places])
    columns |= {
        "epochs": pa.array([place.epochs for place in places], pa.int64()),
        "seconds": pa.array([place.seconds for place in places], pa.float64()),
        "reason": [place.reason for place in places],
        "workdir": [search.trial_folder(place.number) for place in places],
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    storage.write_bytes(storage.join(search.folder, LEADERBOARD), sink.getvalue().to_pybytes())


def _column(values: Sequence[Any]) -> Any:
    """Values of a key as numbers, true and false, or else as text."""
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if kinds <= {bool} or kinds <= {int, float}:
        return pa.array(values, pa.bool_() if kinds == {bool} else pa.int64() if kinds == {int} else pa.float64())
    return pa.array([None if value is None else shown(value) for value in values], pa.string())


def best_text(search: Search, board: Leaderboard, best: Place) -> str:
    """The job file of the best trial. It names the trial's folder, where its model is."""
    job = search.trial_job(best.number, best.params)
    values = ", ".join(f"{key}={shown(value)}" for key, value in best.params.items())
    done = sum(place.state == "done" for place in board.places)
    lines = [
        f"The best of {len(board.places):,} trials, {done:,} of which ran to their end, of a sweep of job {job.name}",
        f"({datetime.now(UTC):%Y-%m-%d %H:%M} UTC): trial {best.number}, {_metric_name(board)} {best.value:.6g}.",
        f"It has {values}.",
        "train.workdir is the folder of that trial: predict, score and report use its model, and train goes on with it",
        "where epochs are added. With another train.workdir, train starts anew and comes to the same weights.",
    ]
    return "".join(f"# {line}\n" for line in lines) + "\n" + trial_text(job)
