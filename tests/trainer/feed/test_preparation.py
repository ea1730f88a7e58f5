"""What the feed asks of a preparation: the number of each window is its place in the run, whoever reads it."""

import numpy as np
import pytest
import tensorflow as tf
from feeds import arguments
from stripes import write_images

from beamfeed.contract.dataset.batches import train_steps
from beamfeed.trainer.feed.dataset import load_dataset
from beamfeed.trainer.feed.options import Tuning
from beamfeed.trainer.feed.sharding import Distribution

COUNT, BATCH = 41, 6


class Numbering:
    """Gives each window its number, and its name in capitals, once."""

    bytes = 1000
    together = 2

    def __init__(self, keeps=False):
        self.keeps = keeps

    def check(self, batch_size, devices):
        self.checked = batch_size, devices

    def decode(self, values):
        return {name: tf.strings.upper(one) if name == "path" else one for name, one in values.items()}

    def finish(self, values, numbers, is_decoded):
        return {**(values if is_decoded else self.decode(values)), "number": numbers}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_images(str(tmp_path_factory.mktemp("images")), (COUNT, 9, 3), per_record=3)


def read(data, split="train", **options):
    options = {"batch_size": BATCH, "shuffle": 16, "fields": ["path", "label"], "preparation": Numbering(), **options}
    return list(load_dataset(data.output, split, **arguments(**options)))


@pytest.mark.parametrize("keeps", [False, True])
def test_numbers_are_places_in_the_run(data, keeps):
    preparation = Numbering(keeps)
    batches = read(data, epochs=3, preparation=preparation)
    assert preparation.checked == (BATCH, 1)
    assert len(batches) == 3 * train_steps(COUNT, BATCH)
    numbers = np.concatenate([batch["number"] for batch in batches])
    np.testing.assert_array_equal(numbers, np.arange(len(numbers)))
    plain = read(data, epochs=3, preparation=None)
    for one, other in zip(batches, plain, strict=True):
        np.testing.assert_array_equal(one["path"], [path.upper() for path in other["path"].numpy()])
        np.testing.assert_array_equal(one["label"], other["label"])


def test_they_do_not_hang_on_where_reading_begins(data):
    steps = train_steps(COUNT, BATCH)
    whole = read(data, epochs=3)
    for epoch, step in ((0, 3), (1, 0), (2, steps - 1)):
        later = read(data, epochs=3 - epoch, start=(epoch, step))
        for one, other in zip(later, whole[epoch * steps + step :], strict=True):
            for name in ("number", "path"):
                np.testing.assert_array_equal(one[name], other[name])


def test_nor_on_the_number_of_workers(data):
    whole = read(data, epochs=2)
    for workers, replicas in ((1, 2), (3, 2)):
        shares = [Distribution(worker, workers, replicas) for worker in range(workers)]
        parts = [read(data, epochs=2, distribution=share) for share in shares]
        for place, one in enumerate(whole):
            mine = [part[place * replicas + replica] for part in parts for replica in range(replicas)]
            for name in ("number", "path"):
                np.testing.assert_array_equal(np.concatenate([batch[name] for batch in mine]), one[name])


@pytest.mark.parametrize(
    ("cache", "keeps"), [("none", False), ("none", True), ("memory", False), ("memory", True), ("file", True)]
)
def test_padded_batches_are_prepared_too(data, cache, keeps):
    batches = read(data, "eval", remainder="pad", preparation=Numbering(keeps), tuning=Tuning(cache=cache), shuffle=0)
    present = np.concatenate([weights for _, weights in batches]) > 0
    paths = np.concatenate([fields["path"] for fields, _ in batches])
    assert sorted(paths[present]) == sorted(
        path.upper().encode() for path in list(data.pixels)[COUNT : COUNT + 9]
    )  # the images of eval
    assert set(paths[~present]) == {b""}
    assert all(fields["number"].shape == weights.shape for fields, weights in batches)


class OneByOne(Numbering):
    """The same of windows that are so large that each is prepared by itself."""

    bytes = 1 << 30
    together = 1


@pytest.mark.parametrize(
    ("remainder", "replicas"), [("drop", 1), ("pad", 2), ("drop", 4), ("pad", 4)]
)  # of equal batches, and of others
def test_large_windows_come_in_the_same_batches(data, remainder, replicas):
    options = {"distribution": Distribution(0, 1, replicas), "remainder": remainder, "epochs": 2}
    batches, wanted = (read(data, **options, preparation=one) for one in (OneByOne(), Numbering()))
    assert len(batches) == len(wanted) > 10
    for one, other in zip(batches, wanted, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, one, other)
        assert tf.nest.map_structure(lambda values: values.shape, one) == tf.nest.map_structure(
            lambda values: values.shape, other
        )
