"""The task classify: the model gives a number, a logit, for each class."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from beamfeed.contract.config.task import Classify as Section
from beamfeed.contract.dataset.batches import windows_in
from beamfeed.contract.dataset.goals import class_weights
from beamfeed.trainer.models.signature import Output
from beamfeed.trainer.tasks.base import Fields, Guesses, Restore, Sample, Sampling, Task, TrainingWindows
from beamfeed.trainer.tasks.baselines import fit_baselines
from beamfeed.trainer.tasks.named import Measure, Trial

BEST_THRESHOLD = "best_threshold"
LEAST_SHARE = 1e-6  # of a class without training windows
WRITTEN = 12  # classes: with more, the cells of the picture have no numbers


class Classify(Task):
    """Loss: cross-entropy from logits.

    Losses of Keras get logits and one-hot targets, or the numbers of the classes where they are `sparse_...`; those
    that are not made for logits (but for hinges) get probabilities.
    Metrics of Keras get probabilities and targets in the same way; those of one probability (AUC, Precision) get
    that of the second class where there are two. Where `threshold` is a number, those of what is predicted (accuracy,
    Precision) get 1 for the class that it decides on. Losses and metrics of the user's own get the numbers of the
    classes, int64 `[batch]`.
    """

    picture = "confusion_matrix"
    sampling = Sampling(2048, mixed=True)
    default_loss = "sparse_categorical_crossentropy"
    loss_text = "cross-entropy"
    default_metrics = ("accuracy",)
    short_losses: ClassVar[Mapping[str, str]] = {"focal": "categorical_focal_crossentropy"}
    short_names: ClassVar[Mapping[str, str]] = {
        "accuracy": "sparse_categorical_accuracy",
        "crossentropy": "sparse_categorical_crossentropy",
        "mean_iou": "one_hot_mean_iou",
        "top_k_accuracy": "sparse_top_k_categorical_accuracy",
    }
    goal: Section
    _threshold: float | None = None

    @property
    def classes(self) -> list[str]:
        """Their names, in the order of the logits."""
        return self.manifest.field(self.goal.target).classes

    def needed_metrics(self) -> list[str]:
        """With threshold: best_f1, the metric that finds it."""
        is_needed = self.goal.threshold == "best_f1" and BEST_THRESHOLD not in (self.goal.metrics or ())
        return [BEST_THRESHOLD] if is_needed else []

    def settle(self, measured: Mapping[str, float | None]) -> None:
        """The threshold."""
        if self.goal.threshold == "best_f1":
            self._threshold = measured.get(BEST_THRESHOLD)

    @property
    def threshold(self) -> float | None:
        """The probability of the second of two classes from which on it is said; None: the likelier one is."""
        return self._threshold if self.goal.threshold == "best_f1" else self.goal.threshold

    def least_loss(self, windows: int) -> float | None:
        """Of cross-entropy, ln 2 / (windows + 1), under which all windows are told right.

        A mistake in as many windows is as likely as not all the same (by Laplace's rule of succession): weights that
        are surer than that are not shown to be better, and pay for it where they are wrong. Weights of windows or
        classes may have any size, so with them any lower loss is better.
        """
        is_weighted = self.goal.sample_weight is not None or isinstance(self.goal.class_weights, Mapping)
        if is_weighted or self.goal.loss not in (None, self.default_loss):
            return None
        return math.log(2) / (windows + 1)

    @property
    def output(self) -> Output:
        """`[batch, classes]`."""
        return Output(((len(self.classes),),), "a number for each class", units=len(self.classes), logits=True)

    def truth(self, fields: Fields) -> tf.Tensor:
        """The number of each window's class, int64 `[batch]`."""
        return tf.cast(tf.reshape(fields[self.goal.target], [-1]), tf.int64)

    def weights(self, fields: Fields, truth: tf.Tensor) -> tf.Tensor | None:
        """Those of the windows times those of their classes."""
        of_windows = super().weights(fields, truth)
        of_classes = class_weights(self.goal, self.key, self.manifest)
        if of_classes is None:
            return of_windows
        of_class = tf.gather(tf.constant(of_classes, tf.float32), truth)
        return of_class if of_windows is None else of_class * of_windows

    def losses(self, truth: tf.Tensor, output: tf.Tensor) -> tf.Tensor:
        takes_numbers = self.loss.is_own or self.loss.name.startswith("sparse_")
        takes_logits = self.loss.is_own or self.loss.takes_logits or "hinge" in self.loss.name
        scores = tf.cast(output, tf.float32) if takes_logits else self.scored(output)
        return self.loss(truth if takes_numbers else self._one_hot(truth), scores)

    def scored(self, output: tf.Tensor) -> tf.Tensor:
        """Probabilities, float32 `[batch, classes]`."""
        return tf.nn.softmax(tf.cast(output, tf.float32))

    def compared(self, measure: Measure, truth: tf.Tensor, scored: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        if isinstance(self.goal.threshold, float) and measure.is_of_decisions:
            scored = self._one_hot(self._decided(scored))
        if measure.is_own or measure.keras_name.startswith("sparse_"):
            return truth, scored
        if measure.is_yes_no and len(self.classes) == 2:
            return truth, scored[:, 1]
        return self._one_hot(truth), scored

    def arguments(self) -> dict[str, Any]:
        """One number for all classes."""
        return {"num_classes": len(self.classes), "average": "macro"}

    def trial(self, rng: np.random.Generator, windows: int) -> Trial:
        """Some of each class; right is the likeliest, beyond any threshold, wrong the least likely."""
        numbers = np.arange(windows) % len(self.classes)
        threshold = self.goal.threshold if isinstance(self.goal.threshold, float) else 0.5
        sure = (6 + abs(np.log(threshold / (1 - threshold)))) * np.eye(len(self.classes))[numbers]
        noise = rng.normal(size=sure.shape)
        outputs = (tf.constant(logits, tf.float32) for logits in (sure + noise, noise - sure))
        return Trial(tf.constant(numbers, tf.int64), *outputs)

    def serve(self, truth: tf.Tensor, output: tf.Tensor, restore: Restore | None) -> dict[str, tf.Tensor]:
        """Probabilities, `[batch, classes]`, and the name of the likeliest class, strings `[batch]`."""
        return {
            "probabilities": self.scored(output),
            "class": tf.gather(tf.constant(self.classes), self._decided(self.scored(output))),
        }

    def _decided(self, probabilities: tf.Tensor) -> tf.Tensor:
        """The number of the class that the model says, int64 `[batch]`."""
        if self.threshold is None:
            return tf.argmax(probabilities, axis=-1)
        return tf.cast(probabilities[:, 1] >= self.threshold, tf.int64)

    def constants(self) -> dict[str, tf.Tensor]:
        """The names of the classes, in the order of the probabilities; and the threshold, where there is one."""
        threshold = {} if self.threshold is None else {"threshold": tf.constant(self.threshold)}
        return {"classes": tf.constant(self.classes), **threshold}

    def guesses(self, windows: TrainingWindows, latent: int | None) -> Guesses:
        """Always the shares of the classes among the training windows, so that the likeliest is always said."""
        target = self.counted(self.goal.target)
        if target is None or len(target.counts) != len(self.classes):
            return Guesses({}, ["nothing to compare with: the manifest does not count the windows of each class"])
        of_classes = class_weights(self.goal, self.key, self.manifest) or np.ones(len(self.classes))
        counts = np.array(target.counts)
        if self.takes_some:
            counts = np.bincount(np.concatenate([truth for _, truth in windows()]), minlength=len(self.classes))
        shares = counts * np.array(of_classes)
        logits = tf.constant(np.log(np.maximum(shares / shares.sum(), LEAST_SHARE)), tf.float32)
        by_number = isinstance(self.goal.threshold, float)  # as `compared` has it
        said = self._decided(self.scored(logits[None]))[0] if by_number else tf.argmax(logits)
        name = f"always {self.classes[int(said)]!r}"
        return Guesses({name: lambda _, truth: tf.tile(logits[None], [tf.shape(truth)[0], 1])}, [])

    def baselines(self, windows: TrainingWindows) -> Guesses:
        """Logistic regression and gradient boosting."""
        weights = class_weights(self.goal, self.key, self.manifest)
        count = windows_in(self.manifest, "train")
        return fit_baselines(self.inputs, windows, count, len(self.classes), weights)

    def draw(self, figure: Any, sample: Sample) -> None:
        """The confusion matrix: how many windows of each class are taken for which."""
        axes = figure.subplots()
        count = len(self.classes)
        truth = sample.truth.astype(int)
        pairs = truth * count + self._decided(self.scored(tf.constant(sample.output))).numpy()
        matrix = np.bincount(pairs, minlength=count * count).reshape(count, count)
        shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        right = np.trace(matrix) / max(1, matrix.sum())
        at = "" if self.threshold is None else f", at {self.threshold:.3g}"
        axes.set(title=f"{len(truth):,} windows, {right:.1%} right{at}", xlabel="model says", ylabel="is")
        if count > WRITTEN:
            return
        axes.set_xticks(range(count), self.classes, rotation=30 if count > 3 else 0)
        axes.set_yticks(range(count), self.classes)
        for row, column in np.ndindex(count, count):
            color = "white" if shares[row, column] > 0.5 else "black"
            axes.text(column, row, f"{matrix[row, column]:,}", ha="center", va="center", color=color)

    def say(self, sample: Sample) -> str:
        """The class, and the likeliest one with its probability."""
        probabilities = self.scored(tf.constant(sample.output[:1])).numpy()[0]
        best = int(self._decided(probabilities[None]).numpy()[0])
        return f"is {self.classes[int(sample.truth[0])]}, said {self.classes[best]} ({probabilities[best]:.0%})"

    def _one_hot(self, truth: tf.Tensor) -> tf.Tensor:
        return tf.one_hot(truth, len(self.classes))
