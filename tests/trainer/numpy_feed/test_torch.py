"""PyTorch's dataset, with PyTorch's own loader."""

import pickle

import numpy as np
import pytest
from datasets import write_dataset
from feeds import arguments, batch_reader
from records import FIELDS, make_records

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.errors import UserError
from beamfeed.trainer.numpy_feed.torch_dataset import torch_dataset
from beamfeed.trainer.numpy_feed.windows import Ragged

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'beamfeed[torch]')")
data = torch.utils.data

ROWS = [[9, 5, 12, 4], [7, 30, 6], [4]]
SERIES = Windows(length=4, stride=2)
OPTIONS = {"batch_size": 3, "shuffle": 8, "epochs": 2}


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_dataset(str(folder), FIELDS, {"train": make_records(FIELDS, ROWS, SERIES)}, SERIES)
    return str(folder)


@pytest.fixture(scope="module")
def expected(output):
    return rows(torch_dataset(output, "train", **OPTIONS))


def rows(batches) -> list:
    """What identifies each batch."""
    return [batch["values"].tolist() for batch in batches]


def test_values_are_tensors_without_a_copy(output):
    batch = next(iter(torch_dataset(output, "train", batch_size=5, fields=[field.name for field in FIELDS])))
    assert (batch["values"].dtype, tuple(batch["values"].shape)) == (torch.float32, (5, 4, 2))
    assert (batch["label"].dtype, tuple(batch["label"].shape)) == (torch.int64, (5,))
    assert (batch["pixels"].dtype, tuple(batch["pixels"].shape)) == (torch.uint8, (5, 4, 3, 4))
    assert batch["wave"].dtype == torch.complex64
    assert batch["mask"].dtype == torch.bool
    assert batch["huge"].dtype == torch.uint64
    assert isinstance(batch["who"][0], bytes)
    assert np.shape(batch["image"]) == (5, 4)
    assert np.shape(batch["pair"]) == (5, 4, 2)
    assert tuple(batch["tokens"].lengths.shape) == (5, 4)
    assert len(batch["tokens"].values) == batch["tokens"].lengths.sum()
    assert tuple(batch["boxes"].values.shape)[1:] == (2,)
    assert len(batch["words"].values) == batch["words"].lengths.sum()
    assert tuple(batch["found"].lengths.shape) == (5,)
    raw = next(batch_reader(output, batch_size=5, fields=["values", "found"]).read()).fields
    np.testing.assert_array_equal(raw["values"], batch["values"].numpy())
    assert isinstance(raw["found"], Ragged)
    np.testing.assert_array_equal(raw["found"].values, batch["found"].values.numpy())


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_a_loaders_workers_share_the_batches_in_the_same_order(output, expected, workers):
    loader = data.DataLoader(torch_dataset(output, "train", **OPTIONS), batch_size=None, num_workers=workers)
    assert rows(loader) == expected
    assert len(loader) == len(expected)


def test_padded_batches_come_with_weights(output):
    batches = list(torch_dataset(output, "train", batch_size=4, remainder="pad"))
    assert sum(float(weights.sum()) for _, weights in batches) == 29
    assert all(weights.dtype == torch.float32 and len(weights) == 4 for _, weights in batches)


@pytest.mark.parametrize("workers", [0, 2])
def test_epochs_are_set_also_where_workers_stay(output, workers):
    options = {**OPTIONS, "epochs": 1}
    dataset = torch_dataset(output, "train", **options)
    loader = data.DataLoader(dataset, batch_size=None, num_workers=workers, persistent_workers=workers > 0)
    for epoch in (0, 4, 1):
        dataset.set_epoch(epoch)
        assert rows(loader) == rows(torch_dataset(output, "train", **arguments(**options, start=(epoch, 0))))


def test_a_state_goes_on_where_it_was_taken(output, expected):
    dataset = torch_dataset(output, "train", **OPTIONS)
    batches = iter(dataset)
    before = [next(batches)["values"].tolist() for _ in range(5)]
    state = pickle.loads(pickle.dumps(dataset.state_dict()))
    assert before == expected[:5]
    again = torch_dataset(output, "train", **OPTIONS)
    again.load_state_dict(state)
    assert rows(again) == expected[5:]
    assert rows(again) == expected  # the pass after it is whole


def test_a_state_is_of_the_pass_that_comes_or_goes_on(output, expected):
    dataset = torch_dataset(output, "train", **OPTIONS)
    next(iter(dataset))
    state = dataset.state_dict()
    assert state["given"] == 1
    again = torch_dataset(output, "train", **OPTIONS)
    again.load_state_dict(state)
    assert again.state_dict() == state
    batches = iter(again)
    assert again.state_dict() == state
    assert rows(batches) == expected[1:]
    iter(again)
    assert again.state_dict()["given"] == 0


def test_after_the_end_of_an_epoch_the_next_is_whole(output, expected):
    dataset = torch_dataset(output, "train", **OPTIONS)
    rows(dataset)
    state = dataset.state_dict()
    assert state["given"] == len(expected)
    again = torch_dataset(output, "train", **OPTIONS)
    again.load_state_dict(state)
    iter(again)  # as torchdata's loader does, which sees that this pass has ended and begins another
    assert rows(again) == expected


def test_a_state_of_something_else_is_refused(output):
    state = torch_dataset(output, "train", **OPTIONS).state_dict()
    with pytest.raises(UserError, match="the state is of a dataset with seed 7, this one has 8"):
        torch_dataset(output, "train", **OPTIONS, seed=8).load_state_dict(state)


@pytest.mark.parametrize("workers", [0, 2])
def test_torchdatas_loader_goes_on(output, expected, workers):
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is not installed")

    def loader():
        return stateful.StatefulDataLoader(
            torch_dataset(output, "train", **OPTIONS), batch_size=None, num_workers=workers
        )

    first = loader()
    batches = iter(first)
    before = [next(batches)["values"].tolist() for _ in range(7)]
    state = first.state_dict()
    del batches
    again = loader()
    again.load_state_dict(state)
    assert before + rows(again) == expected
    ended = loader()
    ended.load_state_dict(again.state_dict())
    assert rows(ended) == expected


def test_a_dataset_can_be_sent_to_another_process(output, expected):
    assert rows(pickle.loads(pickle.dumps(torch_dataset(output, "train", **OPTIONS)))) == expected


def test_processes_read_their_rows_of_each_batch(output, expected):
    from beamfeed.trainer.feed.sharding import Distribution

    parts = [
        rows(torch_dataset(output, "train", **OPTIONS, distribution=Distribution(worker, 2))) for worker in range(2)
    ]
    assert [one + other for one, other in zip(*parts, strict=True)] == expected
