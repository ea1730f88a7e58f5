"""The losses and metrics of a model, and of what costs nothing, on the same windows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.review import Measured
from beamfeed.trainer.review.columns import Columns
from beamfeed.trainer.review.inputs_seen import images_of
from beamfeed.trainer.review.reading import BATCH, Fields, Keys, without_padding
from beamfeed.trainer.tasks.base import Guess, Sample
from beamfeed.trainer.tasks.objective import LOSS, Examples, Objective

Guessed = Mapping[str, Mapping[str, Guess]]  # by the name of the guess, then by output


@dataclass(frozen=True)
class Scores:
    """What was measured on some windows.

    Attributes:
      losses: float64 `[windows]`, the model's, in the order of reading.
      assets: strings `[windows]`; empty ones where records name none.
      model: its losses and metrics.
      guesses: the same of each guess.
      outputs: what the model makes of all of them, of outputs whose windows are not shown one by one.
      windows: the windows themselves, where some output shows them.
      columns: sums over the columns of the inputs.
    """

    losses: np.ndarray
    assets: np.ndarray
    model: Measured
    guesses: dict[str, Measured]
    outputs: dict[str, Sample]
    windows: list[Fields]
    columns: Columns


class Scorer:
    """Runs a model and guesses over windows.

    What a model's layers add to the loss by themselves is no error, and left out.

    Args:
      model: of the objective's signature.
      objective: what was learned.
      guesses: what costs nothing.
      keys: of the dataset.
      manifest: of the same.

    Attributes:
      images: the names of the inputs that are images.
    """

    def __init__(self, model: keras.Model, objective: Objective, guesses: Guessed, keys: Keys, manifest: Manifest):
        self._model, self._objective, self._guesses, self._keys = model, objective, guesses, keys
        self._manifest = manifest
        self._drawn = [name for name, task in objective.tasks.items() if not task.shows_windows]
        self.images = images_of(objective)
        self._shows = bool(self.images) or len(self._drawn) < len(objective.tasks)
        self._measure = tf.function(self._of_batch, reduce_retracing=True, autograph=False)

    def __call__(self, batches: Iterable[tuple[Fields, tf.Tensor]], keeps: bool) -> Scores:
        """Scores batches as `read_windows` gives them, at least one; `keeps` the windows that may be shown."""
        losses, assets, windows, columns = [], [], [], Columns(self._manifest)
        pairs: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {name: [] for name in self._drawn}
        total = {name: self._objective.zero() for name in ("", *self._guesses)}
        for fields, present in batches:
            loss, sums_of, drawn = self._measure(
                {name: values for name, values in fields.items() if name not in self._keys.names}, present
            )
            real = without_padding(fields, present)
            columns.add(real)
            losses.append(loss.numpy().astype(np.float64))
            assets.append(self._keys.assets(real))
            for name, sums in sums_of.items():
                total[name] = {key: total[name][key] + value.numpy().astype(np.float64) for key, value in sums.items()}
            for name, (truth, output) in drawn.items():
                pairs[name].append((truth.numpy(), output.numpy()))
            if keeps and self._shows:
                windows.append(real)
        names = self._manifest.features
        measured = {name: self._objective.values(sums, sum(map(len, losses))) for name, sums in total.items()}
        return Scores(
            np.concatenate(losses),
            np.concatenate(assets),
            measured.pop(""),
            measured,
            {
                name: Sample(
                    np.concatenate([truth for truth, _ in parts]),
                    np.concatenate([output for _, output in parts]),
                    names,
                )
                for name, parts in pairs.items()
            },
            windows,
            columns,
        )

    def outputs(self, fields: Fields) -> dict[str, Sample]:
        """What the model makes of a batch without padding, by output."""
        return samples_of(self._objective, self._model, fields, self._manifest.features)

    def _of_batch(self, fields: Fields, present: tf.Tensor) -> tuple[tf.Tensor, dict[str, Any], dict[str, Any]]:
        """The losses of the windows, the sums of model and guesses, and what is to be drawn."""
        examples = self._objective.examples(without_padding(fields, present))
        of_model = self._objective.outputs(self._model(examples.x, training=False))
        outputs = {"": of_model}
        for name, guesses in self._guesses.items():
            outputs[name] = {output: guess(examples.x, examples.truth[output]) for output, guess in guesses.items()}
        sums_of = {name: _sums(self._objective, examples, of_guess) for name, of_guess in outputs.items()}
        drawn = {name: (examples.truth[name], tf.cast(of_model[name], tf.float32)) for name in self._drawn}
        return self._objective.losses(examples, of_model)[LOSS], sums_of, drawn


def samples_of(objective: Objective, model: keras.Model, fields: Fields, columns: list[str]) -> dict[str, Sample]:
    """Some windows without padding and what a model makes of them, by output."""
    examples = objective.examples(fields)
    parts = []
    for first in range(0, len(next(iter(examples.truth.values()))), BATCH):
        x = tf.nest.map_structure(lambda values, first=first: values[first : first + BATCH], examples.x)
        parts.append(objective.outputs(model(x, training=False)))
    x = examples.x.numpy() if isinstance(examples.x, tf.Tensor) else None
    return {
        name: Sample(
            truth.numpy(), tf.cast(tf.concat([part[name] for part in parts], 0), tf.float32).numpy(), columns, x
        )
        for name, truth in examples.truth.items()
    }


def _sums(objective: Objective, examples: Examples, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    losses = {name: tf.reduce_sum(loss) for name, loss in objective.losses(examples, outputs).items()}
    return {**losses, **objective.measure(examples, outputs)}
