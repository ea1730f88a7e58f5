"""The batches of a split as a dataset of PyTorch's."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from beamfeed.contract.errors import UserError
from beamfeed.trainer.numpy_feed.batches import Batch, BatchReader
from beamfeed.trainer.numpy_feed.windows import Ragged, Values


class TorchBatches(IterableDataset):
    """What `beamfeed.torch_dataset` gives; `identity` are the arguments that decide on it, which a state must fit."""

    def __init__(self, reader: BatchReader, identity: Mapping[str, Any]):
        super().__init__()
        self._reader, self._identity = reader, {**identity, "fingerprint": reader.fingerprint}
        # Shared memory: the workers of a DataLoader that stay from epoch to epoch see it change.
        self._epoch = torch.tensor(reader.first_epoch, dtype=torch.int64).share_memory_()
        self._batches = 0  # batches of this pass, by this process
        self._skip: int | None = None  # of the next pass, which a state says

    def __len__(self) -> int:
        """Batches of a pass; a TypeError where it has no end."""
        return len(self._reader)

    def set_epoch(self, epoch: int) -> None:
        """Sets the first epoch of the next pass, as with PyTorch's own samplers; its batches begin at `start`'s."""
        self._epoch.fill_(epoch)

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        # Here, and not with the first batch: a loader may ask for the state before it, or begin another pass instead.
        self._batches, self._skip = self._skip or 0, None
        # PyTorch takes a batch of each worker in turn: so the order is that of one.
        return self._give(self._reader.read(number + self._batches * workers, workers, int(self._epoch)))

    def _give(self, batches: Iterator[Batch]) -> Iterator[Any]:
        for batch in batches:
            self._batches += 1
            fields = {name: to_torch(values) for name, values in batch.fields.items()}
            yield fields if batch.weights is None else (fields, torch.from_numpy(batch.weights))

    def state_dict(self) -> dict[str, Any]:
        """Where this process is in a pass, for `load_state_dict`."""
        given = self._batches if self._skip is None else self._skip
        return {"given": given, "epoch": int(self._epoch), "workers": _workers(), "of": dict(self._identity)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Lets the next pass go on where `state_dict` was asked for.

        Raises:
          UserError: if the state is of other arguments, another dataset, or another number of a loader's workers.
        """
        expected = {**self._identity, "workers": _workers()}
        actual = {**state["of"], "workers": state["workers"]}
        for name, value in expected.items():
            if actual.get(name) != value:
                raise UserError(f"the state is of a dataset with {name} {actual.get(name)!r}, this one has {value!r}")
        self._skip = int(state["given"])
        self._epoch.fill_(state["epoch"])


def _workers() -> int:
    worker = get_worker_info()
    return worker.num_workers if worker else 1


def to_torch(values: Values) -> Any:
    """NumPy's values as PyTorch's, without a copy; strings stay lists."""
    if isinstance(values, Ragged):
        return Ragged(to_torch(values.values), torch.from_numpy(values.lengths))
    return torch.from_numpy(values) if isinstance(values, np.ndarray) else values
