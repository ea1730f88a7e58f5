"""A transform graph that is traced before anything is learned: marks stand where the learned numbers will be.

tensorflow-transform traces it where the job is submitted, while workers read the files. What they learn is put in
here, by copying bytes: workers load no TensorFlow.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from beamfeed.contract import storage

SAVED_MODEL = "/saved_model.pb"
ASSETS = "/assets/"
FINGERPRINT = "/fingerprint.pb"  # of the graph before it was filled

# By name: of numbers an array of the mark's shape, of a file its bytes.
Learned = Mapping[str, "np.ndarray | Iterable[bytes]"]


def mark(name: str, shape: Sequence[int]) -> np.ndarray:
    """Numbers that stand for others: float32 of this shape, whose bytes are found nowhere else.

    Raises:
      ValueError: if there are less than two, which a graph would write down in another way.
    """
    if np.prod(shape) < 2:
        raise ValueError(f"{name}: a mark of the shape {list(shape)} is too short")
    seed = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def fill(traced: str, folder: str, learned: Learned) -> None:
    """Copies a graph, with what was learned in it.

    Args:
      traced: the folder of the graph, or one that holds that.
      folder: where to.
      learned: all that the graph has marks and files for.

    Raises:
      ValueError: if there is no graph, or it has no such mark or file.
    """
    numbers = {name: value for name, value in learned.items() if isinstance(value, np.ndarray)}
    missing = {SAVED_MODEL, *(learned.keys() - numbers.keys())}
    for stat in storage.match(traced, ("",)):
        name = stat.path.removeprefix(traced.rstrip("/"))
        if name.endswith(FINGERPRINT):
            continue
        path, file = folder + name, name.rpartition(ASSETS)[2]
        if name.endswith(SAVED_MODEL):
            storage.write_bytes(path, _filled(storage.read_bytes(stat.path), numbers))
            missing.discard(SAVED_MODEL)
        elif ASSETS in name and file in learned:
            storage.write_chunks(path, learned[file])
            missing.discard(file)
        else:
            storage.write_chunks(path, storage.read_chunks(stat.path))
    if missing:
        raise ValueError(f"{traced}: the graph has no {', '.join(sorted(missing))}")


def _filled(graph: bytes, numbers: Mapping[str, np.ndarray]) -> bytes:
    for name, values in numbers.items():
        marked = mark(name, values.shape).astype("<f4").tobytes()
        if marked not in graph:
            raise ValueError(f"the graph has no mark {name} of the shape {list(values.shape)}")
        graph = graph.replace(marked, values.astype("<f4").tobytes())
    return graph
