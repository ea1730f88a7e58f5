"""What the feed does with the fields of some windows before a batch is made of them: decoding, chance, mixup.

Mixup is that of Zhang et al. 2017, "mixup: beyond empirical risk minimization". Rows 2k and 2k + 1 of a global batch
are mixed with each other, each with a share of its own. Both are rows of one device where each has an even number of
rows, so how a batch is divided does not matter. A window's own share is the larger one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf

from beamfeed.contract.errors import UserError
from beamfeed.trainer.decode.draws import Draws
from beamfeed.trainer.decode.image import Images

SHARE = ".share"  # what a batch calls the share of each window itself
OTHER = ".other/"  # begins the name of a field of the window that it is mixed with; no field of a dataset has one such
STEPS = 1024  # of the table of shares

Values = Mapping[str, tf.Tensor]  # by the name of the field, `[windows, ...]`


@dataclass(frozen=True)
class Preparation:
    """Decodes fields, and changes them by chance. The feed calls it in the graph, by several threads.

    Attributes:
      decoders: by the name of the field.
      seed: of what is changed.
      batch_size: windows in a global batch of training.
      targets: fields that say what is wanted of a window, for mixing.
      augments: whether values are changed by chance, as in training.
      passing: whether little is read, so that nothing is kept whatever decoders want.
    """

    decoders: Mapping[str, Images]
    seed: int
    batch_size: int
    targets: Sequence[str] = ()
    augments: bool = False
    passing: bool = False

    @property
    def once(self) -> "Preparation":
        """The same for a look at some windows: a whole split is not decoded for it."""
        return replace(self, passing=True)

    @property
    def training(self) -> "Preparation":
        """The same with augmentation."""
        return replace(self, augments=any(decoder.augments for decoder in self.decoders.values()))

    @property
    def bytes(self) -> int:
        """Of what it makes of a window, about: values of any size count as one."""
        inputs = [decoder.input for decoder in self.decoders.values()]
        return sum(field.numbers * tf.as_dtype(field.dtype).size for field in inputs)

    @property
    def together(self) -> int:
        """How many windows it must get at a time: two where they are mixed in pairs."""
        return 1 if self._mixup is None else 2

    @property
    def keeps(self) -> bool:
        """Whether decoded values are to be kept in memory."""
        return not self.passing and any(decoder.keeps for decoder in self.decoders.values())

    @property
    def _mixup(self) -> float | None:
        parameters = [decoder.mixup for decoder in self.decoders.values() if decoder.mixup is not None]
        return parameters[0] if parameters and self.augments else None

    def check(self, batch_size: int, devices: int) -> None:
        """Raises UserError if batches of this size, divided among so many devices, cannot be made."""
        if self._mixup is not None and batch_size % (2 * devices):
            (name, *_) = (name for name, decoder in self.decoders.items() if decoder.mixup is not None)
            raise UserError(
                f"train.inputs.{name}.augment.mixup: mixes windows in pairs, so train.feed.batch_size must be a "
                f"multiple of {2 * devices} on {devices} device{'s' if devices > 1 else ''}; it is {batch_size}"
            )

    def decode(self, values: Values) -> dict[str, tf.Tensor]:
        """Stored values -> decoded ones; other fields stay as they are."""
        return {
            name: self.decoders[name].decode(value) if name in self.decoders else value
            for name, value in values.items()
        }

    def finish(self, values: Values, numbers: tf.Tensor, is_decoded: bool) -> dict[str, tf.Tensor]:
        """Values as they are stored, or decoded ones -> those of a batch.

        Args:
          values: of some windows, which follow each other in this worker's batches; a multiple of `together`.
          numbers: int64 `[windows]`, what chance depends on: the place of each in a run without end, its global batch
            times the batch size, plus its row. So neither the number of workers counts, nor where the reading began.
          is_decoded: whether they come from memory.
        """
        draws = Draws(self.seed, numbers)
        prepared = dict(values)
        for name, decoder in self.decoders.items():
            if name in prepared:
                make_input = decoder.finish if is_decoded else decoder.prepare
                prepared[name] = make_input(prepared[name], draws if self.augments else None)
        parameter = self._mixup
        if parameter is None:
            return prepared
        share = draw_shares(parameter, draws)
        pairs = partners(tf.shape(share)[0])
        of_partners = {OTHER + name: tf.gather(prepared[name], pairs) for name in self.targets if name in prepared}
        images = {name: mixed(prepared[name], share) for name in self.decoders if name in prepared}
        return {**prepared, **images, **of_partners, SHARE: share}

    def prepare(self, values: Values) -> dict[str, tf.Tensor]:
        """Stored values -> the model's inputs, without chance: as served."""
        first = next(iter(values.values()))
        return replace(self, augments=False).finish(values, tf.zeros(tf.shape(first)[:1], tf.int64), is_decoded=False)


def shares(parameter: float) -> np.ndarray:
    """The quantiles of the larger share, float32 `[STEPS + 1]`: of max(s, 1 - s) where s has Beta(a, a).

    The density of s at 1/2 and above is (s (1 - s))^(a - 1). That of u = (1 - s)^a, which goes from 0 to 2^-a, is
    s^(a - 1), which is finite everywhere: it is added up by trapezoids.
    """
    u = np.linspace(0.0, 0.5**parameter, 4 * STEPS + 1)
    share = 1 - u ** (1 / parameter)
    density = share ** (parameter - 1)
    below = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return np.interp(np.linspace(0, 1, STEPS + 1), below / below[-1], share).astype(np.float32)


def partners(batch: tf.Tensor) -> tf.Tensor:
    """The row that each of so many rows, an even number of them, is mixed with: 1, 0, 3, 2, ..."""
    return tf.bitwise.bitwise_xor(tf.range(batch), 1)


def draw_shares(parameter: float, draws: Draws) -> tf.Tensor:
    """How much of each window stays, float32 `[windows]`, from 0.5 to 1."""
    return draws.looked_up("mixup", shares(parameter))


def mixed(values: tf.Tensor, share: tf.Tensor) -> tf.Tensor:
    """Float32 `[windows, ...]`, each with the other one of its pair."""
    share = tf.reshape(share, [-1, *[1] * (values.shape.rank - 1)])
    return share * values + (1 - share) * tf.gather(values, partners(tf.shape(values)[0]))
