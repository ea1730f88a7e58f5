"""An exported model in a worker: loaded once in a process, for all threads."""

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.dataset.argument_names import argument_names
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.contract.imports import lean_imports
from beamfeed.transforms.sources.record_block import Ragged, Values

with lean_imports():
    import tensorflow as tf

    from beamfeed.transforms.sources.loaded import Graph, load_saved, numbers_of

DESCRIBING = ("features", "inputs", "columns")  # signatures by which a model describes itself; each has one of them
ASSET = "asset"  # an argument where each asset has a scale of its own
CALL_BYTES = 1 << 18, 1 << 20, 1 << 22  # of what a model is given at a time, decoded: the fastest is found
CALL_WINDOWS = 16, 16_384  # at least and at most
TRIES = 5  # of each size
_LOADING = threading.Lock()


@dataclass(frozen=True)
class Exported:
    """A SavedModel that was found.

    Attributes:
      folder: of it, local or gs://.
      crc32c: of its files.
    """

    folder: str
    crc32c: str

    @classmethod
    def at(cls, folder: str) -> "Exported":
        """The model in a folder.

        Raises:
          UserError: if there is none.
        """
        files = sorted(storage.match(folder, ("",)), key=lambda file: file.path)
        if not any(file.path.endswith("saved_model.pb") for file in files):
            raise UserError(f"{folder}: there is no exported model; `beamfeed train` writes one to train.workdir")
        checksum = google_crc32c.Checksum()
        for file in files:
            checksum.update(file.path.removeprefix(folder).encode())
            for data in storage.read_chunks(file.path):
                checksum.update(data)
        return cls(folder, checksum.hexdigest().decode())


@lru_cache(maxsize=1)
def _load(exported: Exported) -> "Model":
    return Model(load_saved(exported.folder))


def look_for_devices() -> None:
    """TensorFlow looks for GPUs, and says on stderr that there are none: to be called where that is held back."""
    tf.config.list_physical_devices("GPU")


def load(exported: Exported) -> "Model":
    """The model, which is loaded once in a process."""
    with _LOADING:
        return _load(exported)


class Model:
    """A loaded SavedModel of a training run.

    Attributes:
      description: what it says of itself, by name: classes, features.
      calls: how large they are.
    """

    def __init__(self, loaded: Any):
        self._loaded = loaded  # its tables go with it
        self._transform = getattr(loaded, "transform", None)
        self._signatures = loaded.signatures
        self.description = {
            name: value.numpy()
            for signature in DESCRIBING
            if signature in self._signatures
            for name, value in self._signatures[signature]().items()
        }
        self.calls = CallSizes(self._input_bytes)

    @property
    def _input_bytes(self) -> int:
        """Of what it gets of a window, once that is decoded; an axis of any length counts as 1."""
        specs = self._signatures["preprocessed"].structured_input_signature[1].values()
        return sum(spec.dtype.size * math.prod(size or 1 for size in spec.shape[1:]) for spec in specs)

    @property
    def transform(self) -> Graph | None:
        """Its copy of the transform graph of the dataset that it was trained on; None where that has none."""
        return None if self._transform is None else Graph(self._transform)

    @property
    def raw_window(self) -> tuple[int, int] | None:
        """Rows and features of a window of a series, as files have it; None where it takes something else."""
        specs = self._signatures["serving_default"].structured_input_signature[1]
        others = [spec for name, spec in specs.items() if name != ASSET]
        if "stride" not in self.description or len(others) != 1 or others[0].shape.rank != 3:
            return None
        return int(others[0].shape[1]), int(others[0].shape[2])

    def answer_raw(self, windows: np.ndarray, assets: Sequence[str]) -> dict[str, np.ndarray]:
        """What it says of windows as files have them.

        Args:
          windows: float32 `[windows, length, features]`.
          assets: the name of the asset of each.

        Returns:
          by the name of the output, `[windows, ...]`.
        """
        call = self._signatures["serving_default"]
        arguments = {
            name: tf.constant(assets, tf.string) if name == ASSET else tf.constant(windows, spec.dtype)
            for name, spec in call.structured_input_signature[1].items()
        }
        return {name: np.asarray(output) for name, output in call(**arguments).items()}  # .numpy() would copy

    def answer(self, values: Mapping[str, Values], fields: Sequence[Field]) -> dict[str, np.ndarray]:
        """What it says of some windows.

        Args:
          values: of each of its inputs, `[windows, ...]`, as the dataset stores them.
          fields: of these.

        Returns:
          by the name of the output, `[windows, ...]`.

        Raises:
          JobFailed: if it takes something else.
        """
        # Stored values are decoded where a model has a signature that does so.
        stored = "inputs" in self._signatures and self._transform is None
        call = self._signatures["serving_default" if stored else "preprocessed"]
        specs = call.structured_input_signature[1]
        names = argument_names([field.name for field in fields])
        arguments = {names.get(field.name, field.name): (field, values[field.name]) for field in fields}
        if len(specs) == len(arguments) == 1:  # windows of series, whatever their field is called
            arguments = dict(zip(specs, arguments.values(), strict=True))
        if lacking := specs.keys() - arguments.keys():
            raise JobFailed(f"the model takes {', '.join(sorted(lacking))}, which the dataset does not have")
        return {
            name: np.asarray(output)
            for name, output in call(**{name: _tensor(*arguments[name], spec) for name, spec in specs.items()}).items()
        }


def _tensor(field: Field, values: Values, spec: Any) -> tf.Tensor:
    """Values of a field as a model takes them: those of any length are filled up with 0 to the longest."""
    if isinstance(values, Ragged):
        entries = tf.constant(_plain(values.values, field.width, field.shape[1:]))
        ragged = tf.RaggedTensor.from_row_lengths(entries, values.lengths)
        return ragged if isinstance(spec, tf.RaggedTensorSpec) else tf.cast(ragged.to_tensor(), spec.dtype)
    plain = _plain(values, field.width, field.shape)
    return tf.constant(plain if spec.dtype == tf.string else plain.astype(spec.dtype.as_numpy_dtype, copy=False))


def _plain(values: np.ndarray | pa.Array, width: int, shape: Sequence[int | None]) -> np.ndarray:
    if isinstance(values, np.ndarray):
        return values
    return numbers_of(values).reshape(-1, *shape) if shape else numbers_of(values)


class CallSizes:
    """How many windows a model gets in a call: some sizes are tried, and from then on it is the fastest of them.

    It differs by model: on a CPU a dense one likes calls that are larger than those of a recurrent one.

    Args:
      window_bytes: of what the model gets of a window.
    """

    def __init__(self, window_bytes: int):
        least, most = CALL_WINDOWS
        sizes = {min(most, max(least, size // max(1, window_bytes))) for size in CALL_BYTES}
        self._seconds: dict[int, list[float]] = {size: [] for size in sorted(sizes)}  # a window's

    def next(self, left: int) -> int:
        """Windows of the next call.

        Args:
          left: at most so many.
        """
        for size, seconds in self._seconds.items():
            if size <= left and len(seconds) < TRIES:
                return size
        tried = [size for size, seconds in self._seconds.items() if len(seconds) >= TRIES]
        # What makes ready, once or for a size, is in its first calls.
        return min(left, min(tried, key=lambda size: min(self._seconds[size][1:])) if tried else max(self._seconds))

    def took(self, windows: int, seconds: float) -> None:
        """So long took a call."""
        if windows in self._seconds and len(self._seconds[windows]) < TRIES:
            self._seconds[windows].append(seconds / windows)
