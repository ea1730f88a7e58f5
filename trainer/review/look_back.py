"""Looks at a trained model once more, at the end of its run, and writes what it finds into the working folder.

The chief does this alone, with a model that knows nothing of the other workers. It looks at so many windows that it
takes a small part of the time that training took.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from beamfeed.contract import storage
from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.batches import windows_in
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.recent import by_age
from beamfeed.contract.dataset.result import TrainResult
from beamfeed.contract.dataset.review import AssetError, Measured, Review, SplitReview, write_review
from beamfeed.trainer.models.latent import with_latent
from beamfeed.trainer.review.assets import WORST, assets_csv, errors_by_asset, most_of_error
from beamfeed.trainer.review.columns import Columns, drift
from beamfeed.trainer.review.inputs_seen import images_of, training_inputs
from beamfeed.trainer.review.reading import BATCH, Fields, Keys, read_windows, some_of, training_windows
from beamfeed.trainer.review.report import Chosen, draw_report
from beamfeed.trainer.review.scores import Guessed, Scorer, Scores
from beamfeed.trainer.tasks.base import Guess
from beamfeed.trainer.tasks.objective import Objective

MOST, LEAST = 16_384, 4096  # windows of a split that are looked at
PART = 16  # one for so many that were trained on
FITTED = 8192  # training windows that a guess may be fitted to,
LEARNED = 65_536  # and a model of a library
MOST_BYTES = 128 << 20  # of the inputs of these
LAST = "the last value"

Windows = Callable[[], Iterator[Fields]]


def look_back(
    job: TrainingJob,
    manifest: Manifest,
    objective: Objective,
    model: keras.Model,
    result: TrainResult,
    epochs: Sequence[dict[str, Any]],
    floor: TrainResult | None = None,
    last: Guess | None = None,
) -> bytes:
    """Writes review.json, assets.csv where there are assets, and report.png.

    Args:
      job: the job.
      manifest: of its dataset.
      objective: what was learned, as it was settled.
      model: with the best weights.
      result: of the run.
      epochs: the lines of metrics.jsonl.
      floor: what a linear model reached on the same.
      last: where a later value is wanted, the guess that nothing changes.

    Returns:
      The picture, a PNG.
    """
    names, keys = RunLayout(job.train.workdir), Keys.of(manifest, rows=bool(images_of(objective)))
    fields = [*objective.fields(), *keys.names]
    batch = max(1, min(BATCH, job.train.feed.batch_size // result.workers))
    most = most_windows(job, objective, result)

    def train_windows() -> Iterator[Fields]:
        for fields in training_windows(job, manifest, objective, min(FITTED, most), batch):
            train.add(fields)
            yield fields

    def more_windows() -> Iterator[Fields]:
        return training_windows(job, manifest, objective, most_windows(job, objective, result, LEARNED))

    train = Columns(manifest)
    guesses: Guessed = {}
    skipped: list[str] = []
    if job.train.review.baselines == "all":
        guesses, skipped = make_guesses(objective, train_windows, latent_size(model, objective), more_windows)
        if last is not None:
            guesses = {**guesses, LAST: dict.fromkeys(objective.tasks, last)}
    if train.is_empty:
        deque(train_windows(), maxlen=0)
    scorer = Scorer(model, objective, guesses, keys, manifest)
    shown: SplitName = "eval" if windows_in(manifest, "eval") else "train"
    reviewed: list[SplitName] = [shown, "test"] if windows_in(manifest, "test") else [shown]
    scores = {
        split: scorer(read_windows(job, manifest, split, fields, batch, most, objective.once), keeps=split == shown)
        for split in reviewed
    }
    errors: dict[str, list[AssetError]] = {
        split: errors_by_asset(score.losses, score.assets) for split, score in scores.items() if keys.asset
    }
    alone = Scorer(model, objective, {}, keys, manifest)
    aged: dict[str, dict[str, Measured]] = {
        split: {
            words: alone(read_windows(job, some, split, fields, batch, most, objective.once), keeps=False).model
            for words, some in (by_age(job.train.on, manifest) if job.train.on else {}).items()
            if windows_in(some, split)
        }
        for split in scores
    }
    splits = {
        split: SplitReview(
            windows=len(score.losses),
            of=windows_in(manifest, split),
            model=score.model,
            least=objective.least_loss(len(score.losses)),
            by_age=aged[split],
            guesses=score.guesses,
            skipped=skipped,
            assets=len(errors.get(split, ())),
            worst=errors.get(split, [])[:WORST],
            drift=drift(train, score.columns),
            most_of_error=most_of_error(errors.get(split, [])),
        )
        for split, score in scores.items()
    }
    write_review(names.workdir, Review(fingerprint=result.fingerprint, splits=splits))
    if errors:
        storage.write_text(names.assets, assets_csv(errors))
    title = f"{job.name}: {shown}, {len(scores[shown].losses):,} windows"
    chosen = choose(scores[shown], scorer, keys)
    inputs = training_inputs(job, manifest, objective)
    png = draw_report(title, objective, result, epochs, floor, scores[shown], errors.get(shown, []), chosen, inputs)
    storage.write_bytes(names.report, png)
    return png


def most_windows(job: TrainingJob, objective: Objective, result: TrainResult, most: int = MOST) -> int:
    """How many windows of a split are looked at: a small part of those that were trained on, and of bounded size."""
    trained = result.steps * job.train.feed.batch_size
    numbers = sum(field.numbers for field in objective.signature.inputs.values())
    return max(1, min(most, max(LEAST, trained // PART), MOST_BYTES // (4 * numbers)))


def latent_size(model: keras.Model, objective: Objective) -> int | None:
    """How many numbers the model's encoder makes of a window; None where it has none that tells."""
    latent, _ = with_latent(model)(objective.signature.zeros(1))  # the encoder may get something else than the input
    return int(np.prod(latent.shape[1:])) if isinstance(latent, tf.Tensor) else None


def make_guesses(
    objective: Objective, windows: Windows, latent: int | None, more_windows: Windows
) -> tuple[Guessed, list[str]]:
    """What a model should beat, and what could not be had. With several outputs, the simplest guess of each together.

    Args:
      objective: what was learned.
      windows: some of training.
      latent: see `Task.guesses`.
      more_windows: training windows for models that are fitted, where there is one output.
    """
    of_outputs = {
        name: task.guesses(partial(objective.pairs, task, windows), latent) for name, task in objective.tasks.items()
    }
    skipped = [
        f"{name}: {line}" if objective.several else line
        for name, of_output in of_outputs.items()
        for line in of_output.skipped
    ]
    if not objective.several:
        ((name, guesses_of),) = of_outputs.items()
        task = objective.tasks[name]
        fitted = task.baselines(partial(objective.pairs, task, more_windows))
        by_name = {**guesses_of.by_name, **fitted.by_name}
        return {guess: {name: function} for guess, function in by_name.items()}, [*skipped, *fitted.skipped]
    simplest = {
        name: next(iter(of_output.by_name.items())) for name, of_output in of_outputs.items() if of_output.by_name
    }
    if len(simplest) < len(of_outputs):
        return {}, skipped
    text = "; ".join(f"{name}: {guess}" for name, (guess, _) in simplest.items())
    return {text: {name: function for name, (_, function) in simplest.items()}}, skipped


def choose(scores: Scores, scorer: Scorer, keys: Keys) -> Chosen:
    """The best window, that with the median loss and the worst; none where nothing can be shown of single windows."""
    if not scores.windows:
        return Chosen([], {}, {})
    order = np.argsort(scores.losses, kind="stable")
    ends = np.cumsum([len(next(iter(fields.values()))) for fields in scores.windows])
    windows, captions = [], []
    for name, number in (("best", order[0]), ("median", order[len(order) // 2]), ("worst", order[-1])):
        batch = int(np.searchsorted(ends, number, side="right"))
        windows.append(some_of(scores.windows[batch], [number - (ends[batch - 1] if batch else 0)]))
        place = keys.describe(windows[-1], 0)
        loss = f"error {scores.losses[number]:.4g}"
        captions.append(f"{name}: {place}\n{loss}" if place else f"{name}: {loss}")
    together = {field: tf.concat([window[field] for window in windows], 0) for field in windows[0]}
    images = {field: together[field].numpy() for field in scorer.images}
    return Chosen(captions, scorer.outputs(together), images)
