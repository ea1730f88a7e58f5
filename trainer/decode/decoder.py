"""What decodes one field."""

from typing import Protocol

import tensorflow as tf

from beamfeed.trainer.decode.draws import Draws
from beamfeed.trainer.models.signature import Input


class Decoder(Protocol):
    """Stored values of a field -> what a model gets, in two steps: what may be kept in memory lies between them.

    Attributes:
      input: of the model.
      stored: of the values in the dataset, `[batch, ...]`.
      keeps: whether decoded values are to be kept in memory.
      augments: whether training changes them.
      mixup: the parameter of mixing two windows; None where they are not mixed.
    """

    input: Input
    stored: tf.TensorSpec
    keeps: bool
    augments: bool
    mixup: float | None

    def decode(self, values: tf.Tensor) -> tf.Tensor:
        """Stored values -> decoded ones, `[batch, ...]`; empty strings, which fill batches up, become zeros."""

    def finish(self, values: tf.Tensor) -> tf.Tensor:
        """Decoded values -> the model's input."""

    def augment(self, values: tf.Tensor, draws: Draws) -> tf.Tensor:
        """The same, changed by chance."""

    def prepare(self, values: tf.Tensor, draws: Draws | None) -> tf.Tensor:
        """Stored values -> the model's input at once, with draws changed by chance.

        It takes less work than the two steps, and does not give their very numbers.
        """
