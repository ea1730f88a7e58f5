"""What a model answers beside what is true: classes, numbers, forecasts, on one split."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.config.task import Classify, Forecast, Goal, Reconstruct, Regress, Several, goals_of
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.transforms.reporting.figures import COLORS, MANY, MARKED, QUIET, above, draw, edges_of, shares, short
from beamfeed.transforms.reporting.page import Chapter, Facts, Picture, Pictures, Table, Words, number
from beamfeed.transforms.reporting.tables import Batch, Predictions, matrix, numbers_of

ROWS = 200_000  # of a split that curves are drawn of
CLASSES = 20  # of a confusion matrix
CURVES = 6  # classes with a curve of their own
BINS = 10  # of a calibration curve
LETTERS = 12  # of a class in a matrix


@dataclass(frozen=True)
class Answer:
    """An output of a model, and the columns of predictions that hold it.

    Attributes:
      name: of the output; empty where there is one.
      goal: what it has learned.
      columns: of its answer; of classes their probabilities.
      target: the column of what is true; empty where there is none.
      classes: their names.
    """

    name: str
    goal: Goal
    columns: list[str]
    target: str
    classes: list[str]

    @property
    def error_name(self) -> str:
        """What `error` is called."""
        if isinstance(self.goal, Reconstruct):
            return "error"
        if isinstance(self.goal, Classify):
            return "surprise, -ln of the probability of the true class"
        return "absolute error" if isinstance(self.goal, Regress) else "mean absolute error"

    @property
    def needs(self) -> list[str]:
        """The columns that `error` needs."""
        return [*self.columns, *([self.target] if self.target else [])]

    def error(self, batch: Batch) -> np.ndarray:
        """How wrong each row is, float64 `[rows]`."""
        if isinstance(self.goal, Reconstruct):
            return matrix(batch, self.columns)[:, 0]
        if isinstance(self.goal, Classify):
            truth, probabilities = self.classified(batch)
            known = np.maximum(probabilities[np.arange(len(truth)), np.maximum(truth, 0)], 1e-12)
            return np.where(truth < 0, np.nan, -np.log(known))
        truth, answer = self.numbers(batch)
        return np.abs(answer - truth).mean(axis=1)

    def classified(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """The number of the true class, int64 `[rows]`, -1 where none is known; probabilities, `[rows, classes]`."""
        truth = pc.fill_null(pc.index_in(batch.column(self.target), value_set=pa.array(self.classes)), -1)
        return np.asarray(truth, np.int64), np.concatenate([numbers_of(batch, name) for name in self.columns], axis=1)

    def numbers(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """What is true and what was answered, float64 `[rows, numbers]` each."""
        answers = [numbers_of(batch, column) for column in self.columns]
        answer = np.stack(answers, axis=-1).reshape(len(answers[0]), -1)  # as targets: row after row, all columns
        return numbers_of(batch, self.target), answer


def answers_of(task: Goal | Several, manifest: Manifest, schema: pa.Schema) -> list[Answer]:
    """The outputs of which the predictions hold what is needed."""
    answers = []
    for output, goal in goals_of(task).items():
        prefix = f"{output}_" if isinstance(task, Several) else ""
        target = getattr(goal, "target", "")
        if target and f"{target}_" in schema.names:  # it is called as an answer
            target = f"{target}_"
        classes = manifest.field(goal.target).classes if isinstance(goal, Classify) else []
        if isinstance(goal, Reconstruct):
            columns = [f"{prefix}score"]
        elif isinstance(goal, Classify):
            columns = [f"{prefix}probability_{name}" for name in classes]
            if columns[0] not in schema.names:
                columns = [f"{prefix}probabilities"]
        elif isinstance(goal, Regress):
            columns = [f"{prefix}prediction"]
        else:
            columns = [name for name in schema.names if name.startswith(f"{prefix}forecast_")]
        needed = [*columns, *([target] if target else [])]
        if columns and all(name in schema.names for name in needed):
            answers.append(Answer(output if prefix else "", goal, columns, target, classes))
    return answers


def answers_section(answer: Answer, predictions: Predictions) -> Chapter | None:
    """The section of an output that has a target; None where it has none."""
    if not answer.target:
        return None
    split = next(split for split in ("test", "eval", "train") if split in predictions.splits)
    says = f"{answer.name}_class" if answer.name else "class"
    by_threshold = isinstance(answer.goal, Classify) and says in predictions.schema().names
    table = predictions.some(split, [*answer.needs, *([says] if by_threshold else [])], ROWS)
    total = predictions.description["items"][split]
    of = "" if table.num_rows == total else f", by chance, of {total:,}"
    title = f"Answers{f' of {answer.name}' if answer.name else ''} on {split}"
    section = Chapter(title, [Words(f"{table.num_rows:,} predictions{of}.")])
    if isinstance(answer.goal, Classify):
        truth, probabilities = answer.classified(table)
        known = (truth >= 0) & np.isfinite(probabilities).all(axis=1)
        if known.sum() < 2:
            return None
        guess = probabilities.argmax(axis=1)
        if by_threshold:  # of the training run
            guess = np.asarray(pc.fill_null(pc.index_in(table[says], value_set=pa.array(answer.classes)), 0), int)
        section.parts += _classes(answer, truth[known], probabilities[known], guess[known])
    else:
        truth, values = answer.numbers(table)
        if truth.shape != values.shape or not len(truth):
            return None
        ahead = isinstance(answer.goal, Forecast)
        section.parts += _forecasts(truth, values, answer) if ahead else _regression(truth, values)
    return section


def _classes(answer: Answer, truth: np.ndarray, probabilities: np.ndarray, guess: np.ndarray) -> list[Any]:
    from sklearn.metrics import average_precision_score, precision_recall_fscore_support, roc_auc_score

    names, numbers = answer.classes, range(len(answer.classes))
    precision, recall, f1, count = precision_recall_fscore_support(truth, guess, labels=list(numbers), zero_division=0)
    ranked = {}
    for at in numbers:
        is_it = truth == at
        if is_it.any() and not is_it.all() and (len(names) > 2 or at == 1):
            of_class = probabilities[:, at]
            ranked[at] = roc_auc_score(is_it, of_class), average_precision_score(is_it, of_class)
    curves = sorted(ranked, key=lambda at: -count[at])[:CURVES]
    facts = [("accuracy", f"{(truth == guess).mean():.2%}", ""),
             ("always the commonest", f"{count.max() / len(truth):.2%}", "what that reaches")]  # fmt: skip
    if len(ranked):
        auc, average = np.mean(list(ranked.values()), axis=0)
        of = names[curves[0]] if len(ranked) == 1 else "mean of the classes"
        facts += [("ROC AUC", number(float(auc)), of), ("average precision", number(float(average)), of)]
    rows = [(names[at], int(count[at]), float(precision[at]), float(recall[at]), float(f1[at]),
             *(map(float, ranked[at]) if at in ranked else (None, None)))
            for at in sorted(numbers, key=lambda at: -count[at])]  # fmt: skip
    head = ("class", "windows", "precision", "recall", "F1", "ROC AUC", "average precision")
    pictures = [_confusion(names, truth, guess)]
    if curves:
        pictures += _ranking(names, truth, probabilities, curves)
    return [Facts(facts), Pictures(pictures), Table(head, rows)]


def confusion(truth: np.ndarray, guess: np.ndarray, classes: int, most: int = CLASSES) -> tuple[np.ndarray, list[int]]:
    """How often each true class (rows) was taken for which (columns), int64 `[n, n]`, and the numbers of the classes.

    Of more than `most` classes the commonest; the others are the last row and column together, -1.
    """
    order = np.argsort(-np.bincount(truth, minlength=classes), kind="stable").tolist()
    named = order if classes <= most else order[: most - 1]
    shown = named if classes <= most else [*named, -1]
    place = np.full(classes, len(named))  # that of the others
    place[named] = np.arange(len(named))
    counts = np.zeros((len(shown), len(shown)), np.int64)
    np.add.at(counts, (place[truth], place[guess]), 1)
    return counts, shown


def _confusion(names: Sequence[str], truth: np.ndarray, guess: np.ndarray) -> Picture:
    counts, shown = confusion(truth, guess, len(names))
    rows = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    labels = ["others" if at < 0 else short(names[at], LETTERS) for at in shown]

    def how(axes: Any) -> None:
        axes.imshow(rows, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axes.grid(visible=False)
        axes.set_xticks(range(len(labels)), labels, rotation=45 if len(labels) > 3 else 0, ha="right" if len(labels) > 3
                        else "center")  # fmt: skip
        axes.set_yticks(range(len(labels)), labels)
        axes.set(xlabel="the model says", ylabel="it is")
        for (row, column), count in np.ndenumerate(counts) if len(labels) <= 8 else ():
            axes.text(column, row, f"{count:,}", ha="center", va="center",
                      color="white" if rows[row, column] > 0.5 else "black")  # fmt: skip

    caption = "Confusion: the share of each row" + ("" if len(labels) > 8 else ", and the counts")
    return draw(how, caption, height=3.0 if len(labels) <= 8 else 3.6)


def _curves(
    names: Sequence[str], curves: Sequence[int], points: Callable[[int], tuple[np.ndarray, np.ndarray]],
    caption: str, x: str, y: str, *, diagonal: bool, mark: str | None = None,
) -> Picture:  # fmt: skip
    def how(axes: Any) -> None:
        if diagonal:
            axes.plot([0, 1], [0, 1], color=QUIET, linewidth=0.8, linestyle="--")
        for at, color in zip(curves, MANY, strict=False):
            drawn = points(at)
            keep = np.unique(np.linspace(0, len(drawn[0]) - 1, 300).astype(int))
            axes.plot(drawn[0][keep], drawn[1][keep], color=color, label=short(names[at]), marker=mark, markersize=3)
        axes.set(xlabel=x, ylabel=y, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        axes.legend()

    return draw(how, caption, height=3.0)


def _ranking(
    names: Sequence[str], truth: np.ndarray, probabilities: np.ndarray, curves: Sequence[int]
) -> list[Picture]:
    """How well the probabilities of some classes rank windows, and how far they can be taken at their word."""
    from sklearn.calibration import calibration_curve
    from sklearn.metrics import precision_recall_curve, roc_curve

    def roc(at: int) -> tuple[np.ndarray, np.ndarray]:
        false_alarms, found, _ = roc_curve(truth == at, probabilities[:, at])
        return false_alarms, found

    def precision(at: int) -> tuple[np.ndarray, np.ndarray]:
        right, found, _ = precision_recall_curve(truth == at, probabilities[:, at])
        return found, right

    def calibration(at: int) -> tuple[np.ndarray, np.ndarray]:
        clipped = np.clip(probabilities[:, at], 0, 1)
        share, predicted = calibration_curve(truth == at, clipped, n_bins=BINS, strategy="quantile")
        return predicted, share

    calibrated = "Calibration: of windows with this probability, how many are of the class"
    recalled = "Precision and recall"
    return [
        _curves(names, curves, roc, "ROC", "false alarms", "found", diagonal=True),
        _curves(names, curves, precision, recalled, "found (recall)", "right (precision)", diagonal=False),
        _curves(names, curves, calibration, calibrated, "probability", "share", diagonal=True, mark="o"),
    ]


def _regression(truth: np.ndarray, values: np.ndarray) -> list[Any]:
    known = np.isfinite(truth).all(axis=1) & np.isfinite(values).all(axis=1)
    truth, values = truth[known], values[known]
    if not len(truth):
        return [Words("No number is known.")]
    residual = values - truth
    spread = np.square(truth - truth.mean(axis=0)).sum()
    facts = [
        ("mean absolute error", number(float(np.abs(residual).mean())), ""),
        ("root mean square", number(float(np.sqrt(np.square(residual).mean()))), ""),
        ("R²", number(float(1 - np.square(residual).sum() / spread)) if spread else "-", "1 is perfect, 0 the mean"),
    ]
    some = np.random.default_rng(0).permutation(len(truth))[:4000]
    x, y, left = truth[some].ravel(), values[some].ravel(), residual[some].ravel()

    def along(axes: Any) -> None:
        axes.scatter(x, y, s=5, alpha=0.5, linewidths=0, color=COLORS["train"], rasterized=True)
        low, high = min(x.min(), y.min()), max(x.max(), y.max())
        axes.plot([low, high], [low, high], color=QUIET, linewidth=0.9, linestyle="--")
        axes.set(xlabel="true", ylabel="the model says")

    def spread_of(axes: Any) -> None:
        edges = edges_of([left])
        axes.stairs(shares(left, edges), edges, fill=True, color=COLORS["train"], alpha=0.6)
        axes.axvline(0, color=MARKED, linewidth=0.9)
        axes.set(xlabel="the model says, less what is true", ylabel="share")

    def by_size(axes: Any) -> None:
        axes.scatter(x, left, s=5, alpha=0.5, linewidths=0, color=COLORS["train"], rasterized=True)
        axes.axhline(0, color=QUIET, linewidth=0.9, linestyle="--")
        axes.set(xlabel="true", ylabel="too much or too little")

    drawings = ((along, "What is true, and what the model says"), (spread_of, "Errors"), (by_size, "Errors by size"))
    return [Facts(facts), Pictures([draw(how, caption, height=2.8) for how, caption in drawings])]


def _forecasts(truth: np.ndarray, values: np.ndarray, answer: Answer) -> list[Any]:
    """Of forecasts, `[windows, rows ahead * columns]`: errors by how far ahead, and some of them."""
    prefix = len(f"{answer.name}_forecast_" if answer.name else "forecast_")
    names = [column[prefix:] for column in answer.columns][:CURVES]
    truth, values = (part.reshape(len(part), -1, len(answer.columns)) for part in (truth, values))
    errors = np.abs(values - truth)
    by_row, order = np.nanmean(errors, axis=0), np.argsort(np.nanmean(errors, axis=(1, 2)), kind="stable")

    def ahead(axes: Any) -> None:
        for at, name in enumerate(names):
            axes.plot(np.arange(1, len(by_row) + 1), by_row[:, at], color=MANY[at], label=short(name))
        axes.set(xlabel="rows ahead", ylabel="mean absolute error", ylim=(0, None))
        axes.legend(ncols=2)

    def lines(axes: Any, window: int, at: int) -> None:
        axes.plot(truth[window, :, at], color=COLORS["train"], label="true")
        axes.plot(values[window, :, at], color=MARKED, linestyle="--", label="forecast")
        above(axes)

    chosen = [(order[len(order) // 2], "a usual one"), (order[-1], "the worst"), (order[0], "the best")]
    pictures = [
        draw(partial(lines, window=window, at=at), f"{name}, {caption}")
        for window, caption in chosen
        for at, name in list(enumerate(names))[:3]
    ]
    facts = [("mean absolute error", number(float(np.nanmean(errors))), "in the units of the files")]
    return [Facts(facts), Pictures([draw(ahead, "Errors, by how far ahead", height=2.8)]), Pictures(pictures)]
