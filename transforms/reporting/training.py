"""How a training run went, and what it came to beside guesses that cost nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beamfeed.contract.dataset.result import TrainResult
from beamfeed.contract.dataset.review import Review
from beamfeed.contract.text import counted
from beamfeed.transforms.reporting import page
from beamfeed.transforms.reporting.figures import COLORS, LINES, MARKED, QUIET, draw
from beamfeed.transforms.reporting.page import Chapter, Items, Picture, Pictures, Table, Words

LOSS = "loss"
NO_CURVES = ("epoch", "step", "seconds", "windows_per_second", "waiting", "gradient_norm")
MOST_CURVES = 8
MOST_POINTS = 500  # of a curve


@dataclass(frozen=True)
class Run:
    """A training run.

    Attributes:
      workdir: its folder.
      result: of it.
      lines: of metrics.jsonl.
      review: of it; None where there is none.
      floor: what a linear model reached; None where none was trained.
      findings: what is to be thought of it, a sentence each.
    """

    workdir: str
    result: TrainResult
    lines: Sequence[Mapping[str, Any]]
    review: Review | None
    floor: TrainResult | None
    findings: Sequence[str]


def overview(run: Run) -> page.Facts:
    """The numbers that are seen first."""
    result = run.result
    best = f"epoch {result.best_epoch:,}" if result.best_epoch else "as it began"
    metrics = result.test_metrics or result.metrics
    of = "test" if result.test_metrics else result.best_split
    watched = [] if result.watched == "loss" else [(f"{result.best_split} loss", page.number(result.best_loss), "")]
    score = "-" if result.best is None else page.number(result.best)
    return page.Facts(
        [
            (f"best {result.best_split} {plain(result.watched)}", score, best),
            *watched,
            ("test loss", "-" if result.test_loss is None else page.number(result.test_loss), ""),
            *((f"{of} {plain(name)}", "-" if value is None else page.number(value), "")
              for name, value in list(metrics.items())[:4]),
            ("epochs", f"{result.epochs:,}", f"{result.steps:,} steps" + ", stopped early" * result.stopped_early),
            ("took", f"{result.seconds:,.1f} s", counted(result.workers, "worker")),
        ]
    )  # fmt: skip


def plain(metric: str) -> str:
    """The name of a metric as people read it."""
    return metric.replace("_", " ")


def training(run: Run) -> Chapter:
    """Findings, curves, the losses of model and guesses, and the worst assets."""
    section = Chapter("The training run", [Words(f"In {run.workdir}")])
    if run.findings:
        section.parts.append(Items(run.findings))
    section.parts.append(curves(run))
    for split, review in run.review.splits.items() if run.review else ():
        names = list(review.model)
        rows: list[tuple[object, ...]] = [("the model", *(review.model[name] for name in names))]
        guesses = sorted(review.guesses.items(), key=lambda item: item[1].get(LOSS) or float("inf"))
        rows += [(name, *(measured.get(key) for key in names)) for name, measured in guesses]
        floor = run.floor
        if floor is not None and split in ("test", floor.best_split):
            measured = {LOSS: floor.test_loss, **floor.test_metrics} if split == "test" else _of_best(floor)
            of_all = "" if review.windows == review.of else f", of all {review.of:,}"
            rows.append((f"linear floor{of_all}", *(measured.get(key) for key in names)))
        of = "" if review.windows == review.of else f" of {review.of:,}"
        head = (f"{review.windows:,}{of} windows", *map(plain, names))
        section.parts.append(Table(head, rows, f"The model beside what costs nothing, on {split}"))
        section.parts += [Words(line) for line in review.skipped]
        if review.assets > 1:
            worst = [(error.asset, error.windows, error.loss, error.worst) for error in review.worst]
            of_all = f"Assets with the largest loss on {split}, of {review.assets:,}"
            section.parts.append(Table(("asset", "windows", "mean loss", "worst window"), worst, of_all))
    return section


def _of_best(result: TrainResult) -> dict[str, float | None]:
    return {LOSS: result.best_loss, **result.metrics}


def curves(run: Run) -> Pictures:
    """What was measured over the epochs, of train and eval; the loss first."""
    names = dict.fromkeys(name.removeprefix("eval_") for line in run.lines for name in line if name not in NO_CURVES)
    drawn = [LOSS, run.result.watched, *names]
    pictures: list[Picture] = []
    for name in dict.fromkeys(name for name in drawn if name in names):
        lines = [line for line in run.lines if line.get(name) is not None or line.get(f"eval_{name}") is not None]
        if lines and len(pictures) < MOST_CURVES:
            pictures.append(_curve(run, name, lines))
    return Pictures(pictures)


def _curve(run: Run, name: str, lines: Sequence[Mapping[str, Any]]) -> Picture:
    over = "epoch" if len({line["epoch"] for line in lines}) == len(lines) else "step"
    thin = lines[:: max(1, len(lines) // MOST_POINTS)]
    reached = {} if run.floor is None else _of_best(run.floor)

    def how(axes: Any) -> None:
        for key, split in ((name, "train"), (f"eval_{name}", "eval")):
            points = [(line[over], line[key]) for line in thin if line.get(key) is not None]
            if points:
                mark = "o" if len(points) <= 40 else None
                axes.plot(*zip(*points, strict=True), LINES[split], marker=mark, markersize=3,
                          color=COLORS[split], label=split if key != "learning_rate" else None)  # fmt: skip
        if name == run.result.watched and run.result.best_epoch and over == "epoch":
            axes.axvline(run.result.best_epoch, color=QUIET, linewidth=0.9, linestyle=":", label="best")
        if reached.get(name) is not None:
            axes.axhline(reached[name], color=MARKED, linewidth=0.9, linestyle="-.", label="linear floor")
        axes.set_xlabel(over)
        axes.xaxis.get_major_locator().set_params(integer=True)
        if len(thin) == 1:
            axes.set_xticks([thin[0][over]])
        if axes.get_legend_handles_labels()[0]:
            axes.legend()

    return draw(how, plain(name))
