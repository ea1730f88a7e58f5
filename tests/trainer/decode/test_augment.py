"""Augmentation against what NumPy makes of the same draws."""

import numpy as np
import pytest
import tensorflow as tf

from beamfeed.contract.config.inputs import Augment
from beamfeed.trainer.decode.augment import augment
from beamfeed.trainer.decode.draws import Draws

HEIGHT, WIDTH, COUNT = 12, 10, 64
IMAGES = np.random.default_rng(0).integers(0, 256, (COUNT, HEIGHT, WIDTH, 3)).astype(np.uint8)
DRAWS = Draws(7, tf.range(1000, 1000 + COUNT, dtype=tf.int64))


def run(images: np.ndarray = IMAGES, draws: Draws = DRAWS, **section: object) -> np.ndarray:
    found = augment(tf.constant(images), Augment.model_validate(section), draws)
    assert found.dtype == tf.float32
    assert found.shape == images.shape
    return found.numpy()


def drawn(what: str, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    return DRAWS.uniform(what, low, high).numpy()


@pytest.mark.parametrize("flip", ["horizontal", "vertical", "both"])
def test_flips_move_pixels_and_change_none(flip):
    found = run(flip=flip)
    flipped = 0
    for image, one, y, x in zip(IMAGES / np.float32(255), found, drawn("flip y"), drawn("flip x"), strict=True):
        y, x = (y < 0.5) * (flip != "horizontal"), (x < 0.5) * (flip != "vertical")
        wanted = image[:: -1 if y else 1, :: -1 if x else 1]
        np.testing.assert_allclose(one, wanted, atol=1e-5)
        flipped += bool(y or x)
    assert COUNT / 4 < flipped < COUNT


def sample(image: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Linear interpolation at places within the image, by a plain formula."""
    top, left = np.clip(np.floor(y).astype(int), 0, HEIGHT - 2), np.clip(np.floor(x).astype(int), 0, WIDTH - 2)
    down, right = (y - top)[..., None], (x - left)[..., None]
    return (
        (1 - down) * ((1 - right) * image[top, left] + right * image[top, left + 1])
        + down * ((1 - right) * image[top + 1, left] + right * image[top + 1, left + 1])
    )  # fmt: skip


def test_a_crop_is_a_part_of_the_image_at_its_full_size():
    found = run(crop=0.5)
    kept = drawn("crop", 0.5)
    assert kept.min() < 0.6
    for number in range(COUNT):
        top, left = drawn("crop y")[number] * (1 - kept[number]), drawn("crop x")[number] * (1 - kept[number])
        y = (top + kept[number] * np.linspace(0, 1, HEIGHT)) * (HEIGHT - 1)
        x = (left + kept[number] * np.linspace(0, 1, WIDTH)) * (WIDTH - 1)
        wanted = sample(IMAGES[number] / 255, *np.meshgrid(y, x, indexing="ij"))
        np.testing.assert_allclose(found[number], wanted, atol=2e-4)


def test_a_rotation_turns_about_the_middle_and_mirrors_at_the_edges():
    most = 30
    found = run(rotate=most)
    angles = drawn("rotate", -np.radians(most), np.radians(most))
    middle_y, middle_x = (HEIGHT - 1) / 2, (WIDTH - 1) / 2
    y, x = np.meshgrid(np.arange(HEIGHT) - middle_y, np.arange(WIDTH) - middle_x, indexing="ij")
    for number, angle in enumerate(angles):
        from_x = np.cos(angle) * x - np.sin(angle) * y + middle_x
        from_y = np.sin(angle) * x + np.cos(angle) * y + middle_y
        inside = (from_x >= 0) & (from_x <= WIDTH - 1) & (from_y >= 0) & (from_y <= HEIGHT - 1)
        wanted = sample(IMAGES[number] / 255, np.clip(from_y, 0, HEIGHT - 1), np.clip(from_x, 0, WIDTH - 1))
        np.testing.assert_allclose(found[number][inside], wanted[inside], atol=1e-3)
        assert found[number].min() >= 0
        assert found[number].max() <= 1
    # A quarter turn of a square is one of NumPy's, and the rotation does what crop and flip do by themselves.
    square = IMAGES[:, :10, :10]
    nearly_none = run(square, flip="both", crop=0.7, rotate=1e-6)
    np.testing.assert_allclose(nearly_none, run(square, flip="both", crop=0.7), atol=1e-3)


def test_contrast_and_brightness():
    found = run(contrast=0.4, brightness=0.3)
    factor, added = drawn("contrast", 0.6, 1.4), drawn("bright", -0.3, 0.3)
    images = IMAGES / 255
    mean = images.mean((1, 2, 3), keepdims=True)
    wanted = (images - mean) * factor[:, None, None, None] + mean + added[:, None, None, None]
    np.testing.assert_allclose(found, np.clip(wanted, 0, 1), atol=1e-5)
    assert (found == 0).any()
    assert (found == 1).any()


def test_cutout_covers_a_rectangle():
    found = run(cutout=0.5)
    for number, (image, one) in enumerate(zip(IMAGES / np.float32(255), found, strict=True)):
        y = np.abs(np.arange(HEIGHT) + 0.5 - drawn("cutout y")[number] * HEIGHT) < HEIGHT / 4
        x = np.abs(np.arange(WIDTH) + 0.5 - drawn("cutout x")[number] * WIDTH) < WIDTH / 4
        mask = y[:, None] & x[None]
        np.testing.assert_array_equal(one[mask], 0.5)
        np.testing.assert_allclose(one[~mask], image[~mask], atol=1e-6)
        assert 1 <= mask.sum() <= HEIGHT * WIDTH / 4 + HEIGHT + WIDTH


EVERYTHING = {"flip": "both", "crop": 0.8, "rotate": 20, "brightness": 0.2, "contrast": 0.2, "cutout": 0.3}


def test_an_image_is_changed_by_its_number_alone():
    whole = run(**EVERYTHING)
    for some in ([3], [60, 2, 31]):
        part = run(IMAGES[some], Draws(7, tf.gather(DRAWS.numbers, some)), **EVERYTHING)
        np.testing.assert_array_equal(part, whole[some])
    other = run(draws=Draws(8, DRAWS.numbers), **EVERYTHING)
    later = run(draws=Draws(7, DRAWS.numbers + COUNT), **EVERYTHING)
    assert np.abs(whole - other).mean() > 0.05
    assert np.abs(whole - later).mean() > 0.05


def test_what_is_not_asked_for_changes_nothing():
    np.testing.assert_allclose(run(), IMAGES / np.float32(255), atol=1e-7)
