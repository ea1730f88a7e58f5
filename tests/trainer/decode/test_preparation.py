"""Fields of a batch as the feed prepares them: what chance depends on, mixing, and mistakes."""

import numpy as np
import pytest
import tensorflow as tf
from feeds import arguments
from stripes import HEIGHT, WIDTH, image_job, write_images

from beamfeed.contract.errors import UserError
from beamfeed.trainer.decode import preparation_of
from beamfeed.trainer.decode.draws import Draws
from beamfeed.trainer.decode.preparation import OTHER, SHARE, draw_shares, mixed, partners, shares
from beamfeed.trainer.feed.dataset import load_dataset
from beamfeed.trainer.feed.options import FeedOptions
from beamfeed.trainer.feed.sharding import Distribution
from beamfeed.trainer.tasks.objective import Objective

AUGMENT = {"flip": "both", "crop": 0.7, "rotate": 15, "brightness": 0.2, "contrast": 0.2, "cutout": 0.2, "mixup": 0.4}
BATCH = 8


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_images(str(tmp_path_factory.mktemp("images")))


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    return write_images(str(tmp_path_factory.mktemp("raw")), raw=True)


def objective_of(data, **inputs):
    job = image_job(data.output, "none", inputs={"image": {"size": [HEIGHT, WIDTH], **inputs}})
    return Objective.of(job.train, data.manifest)


def read(data, augment=AUGMENT, cache="none", **options):
    preparation = objective_of(data, augment=augment, cache=cache).preparation.training
    options = {"batch_size": BATCH, "shuffle": 64, "epochs": 2, **options}
    return list(load_dataset(data.output, "train", **arguments(preparation=preparation, **options)))


def assert_equal(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_without_augmentation_the_pixels_are_those_of_the_files(data):
    preparation = objective_of(data).preparation
    fields = ["image", "label", "path"]
    seen = 0
    options = FeedOptions(preparation=preparation)
    for batch in load_dataset(data.output, "train", batch_size=BATCH, fields=fields, options=options):
        assert batch["image"].dtype == tf.float32
        for image, path in zip(batch["image"].numpy(), batch["path"].numpy(), strict=True):
            np.testing.assert_array_equal(image, data.pixels[path.decode()] / np.float32(255))
            seen += 1
    assert seen == 40


@pytest.fixture(scope="module")
def whole(data):
    """The batches of one worker with one device."""
    return read(data)


def test_a_run_that_goes_on_sees_the_same_images(data, whole):
    assert np.abs(whole[0]["image"] - whole[5]["image"]).mean() > 0.01
    later = read(data, start=(1, 2), epochs=1)
    for one, other in zip(later, whole[7:], strict=True):
        assert_equal(one, other)


@pytest.mark.parametrize(("workers", "replicas"), [(1, 2), (2, 2)])
def test_workers_and_devices_see_the_same_images_as_one(data, whole, workers, replicas):
    parts = [read(data, distribution=Distribution(worker, workers, replicas)) for worker in range(workers)]
    for place, one in enumerate(whole):
        mine = [part[place * replicas + replica] for part in parts for replica in range(replicas)]
        assert_equal({name: np.concatenate([batch[name] for batch in mine]) for name in one}, one)


def test_images_in_memory_are_augmented_anew_and_alike(data, raw):
    whole = read(data, cache="decoded")
    later = read(data, cache="decoded", start=(1, 2), epochs=1)
    for one, other in zip(later, whole[7:], strict=True):
        assert_equal(one, other)
    for one, other in zip(read(raw), whole, strict=True):
        assert_equal(one, other)
    # Of images that have their size already, all but crops are the same without the cache.
    augment = {**AUGMENT, "crop": None, "rotate": None}
    for one, other in zip(read(data, augment, cache="decoded"), read(data, augment), strict=True):
        for name in one:
            np.testing.assert_allclose(one[name], other[name], atol=1e-5)


def test_epochs_and_seeds_change_images(data):
    one_epoch = {}
    for batch in read(data, {"brightness": 0.5}, fields=["image", "path"], epochs=1):
        one_epoch |= dict(zip(batch["path"].numpy(), batch["image"].numpy(), strict=True))
    again = {}
    for batch in read(data, {"brightness": 0.5}, fields=["image", "path"], epochs=1, start=(1, 0)):
        again |= dict(zip(batch["path"].numpy(), batch["image"].numpy(), strict=True))
    assert len(one_epoch) == 40
    changed = [np.abs(one_epoch[path] - again[path]).mean() > 1e-3 for path in one_epoch]
    assert np.mean(changed) > 0.9


def test_mixed_windows_and_what_is_wanted_of_them(data):
    plain, mixed = read(data, {"mixup": 0.4}), read(data, {"mixup": 0.4})
    alone = read(data, {})
    for one, other, apart in zip(plain, mixed, alone, strict=True):
        assert_equal(one, other)
        share = one[SHARE].numpy()
        assert (share >= 0.5).all()
        pairs = np.arange(BATCH) ^ 1
        images = apart["image"].numpy()
        wanted = share[:, None, None, None] * images + (1 - share)[:, None, None, None] * images[pairs]
        np.testing.assert_allclose(one["image"], wanted, atol=1e-6)
        np.testing.assert_array_equal(one["label"], apart["label"])
        np.testing.assert_array_equal(one[OTHER + "label"], apart["label"].numpy()[pairs])


def test_the_loss_of_mixed_windows_is_that_of_mixed_targets(data):
    objective = objective_of(data, augment={"mixup": 0.4})
    batch = read(data, {"mixup": 0.4})[0]
    logits = tf.constant(np.random.default_rng(0).normal(size=(BATCH, 2)), tf.float32)
    examples = objective.examples(batch)
    found = objective.losses(examples, {"classify": logits})["loss"]
    own, other = (np.eye(2)[batch[name].numpy()] for name in ("label", OTHER + "label"))
    share = batch[SHARE].numpy()[:, None]
    soft = share * own + (1 - share) * other
    assert ((soft > 0) & (soft < 1)).any()
    np.testing.assert_allclose(found, tf.nn.softmax_cross_entropy_with_logits(soft, logits), rtol=1e-5)
    sums = {name: one.numpy() for name, one in objective.measure(examples, {"classify": logits}).items()}
    accuracy = objective.values({**objective.zero(), **sums}, BATCH)["accuracy"]
    assert accuracy == pytest.approx(np.mean(logits.numpy().argmax(1) == batch["label"].numpy()))  # of the larger share


def test_batches_that_cannot_be_mixed_in_pairs(data):
    with pytest.raises(UserError, match="must be a multiple of 4 on 2 devices; it is 10"):
        read(data, batch_size=10, distribution=Distribution(0, 2))
    with pytest.raises(UserError, match=r"train\.inputs\.image\.augment\.mixup: .* multiple of 2 on 1 device; it is 9"):
        read(data, batch_size=9)
    read(data, {**AUGMENT, "mixup": None}, batch_size=9)


def test_without_a_section_nothing_is_prepared(raw):
    job = image_job(raw.output, "none", inputs={})
    assert preparation_of(job.train, raw.manifest) is None
    assert Objective.of(job.train, raw.manifest).preparation is None


@pytest.mark.parametrize("parameter", [0.1, 0.2, 0.5, 1.0, 3.0])
def test_shares_are_the_larger_ones_of_a_beta_distribution(parameter):
    drawn = np.random.default_rng(0).beta(parameter, parameter, 200_000)
    wanted = np.quantile(np.maximum(drawn, 1 - drawn), [0.02, 0.1, 0.25, 0.5, 0.75, 0.9])
    found = draw_shares(parameter, Draws(1, tf.range(100_000, dtype=tf.int64))).numpy()
    assert found.min() >= 0.5
    assert found.max() <= 1
    np.testing.assert_allclose(np.quantile(found, [0.02, 0.1, 0.25, 0.5, 0.75, 0.9]), wanted, atol=0.01)
    assert (np.diff(shares(parameter)) <= 0).all() or (np.diff(shares(parameter)) >= 0).all()


def test_neighbours_are_mixed_in_pairs():
    np.testing.assert_array_equal(partners(tf.constant(6)), [1, 0, 3, 2, 5, 4])
    values = np.arange(12, dtype="f4").reshape(4, 3)
    share = np.array([1.0, 0.5, 0.75, 0.9], "f4")
    found = mixed(tf.constant(values), tf.constant(share))
    wanted = share[:, None] * values + (1 - share)[:, None] * values[[1, 0, 3, 2]]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
