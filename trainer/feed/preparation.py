"""What the feed asks of whoever makes a model's inputs of stored values; it knows nothing of what that does."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # options name it, and PyTorch's users have no TensorFlow
    import tensorflow as tf


class Preparation(Protocol):
    """Changes the fields of windows before a batch is made of them. It is called in the graph, by several threads."""

    @property
    def bytes(self) -> int:
        """Of what it makes of a window, about."""

    @property
    def together(self) -> int:
        """How many windows it must get at a time, or a multiple of that."""

    @property
    def keeps(self) -> bool:
        """Whether decoded values are to be kept in memory."""

    def check(self, batch_size: int, devices: int) -> None:
        """Raises UserError if it cannot make batches of this size for so many devices."""

    def decode(self, values: Mapping[str, "tf.Tensor"]) -> dict[str, "tf.Tensor"]:
        """Values as they are kept in memory: by field, `[values, ...]`; others are passed on."""

    def finish(
        self, values: Mapping[str, "tf.Tensor"], numbers: "tf.Tensor", is_decoded: bool
    ) -> dict[str, "tf.Tensor"]:
        """What a batch holds of some windows, which follow each other in this worker's batches.

        Args:
          values: by field, `[windows, ...]`; as many as `together` says, or a multiple of that.
          is_decoded: whether they come from memory.
          numbers: int64 `[windows]`, the place of each in a run without end: its global batch times the batch size,
            plus its row. It does not depend on how many workers there are, nor on where the reading began.
        """
