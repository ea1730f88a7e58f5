"""Decoding and sizes, against Pillow and NumPy."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from stripes import FIELDS, RAW, png, stripes

from beamfeed.contract.config.inputs import ImageInput
from beamfeed.trainer.decode.draws import Draws
from beamfeed.trainer.decode.image import EncodedImages, RawImages, resized

LARGE = stripes(4, 90, 120)


def decoder(**section: object) -> EncodedImages:
    return EncodedImages(FIELDS[0], ImageInput.model_validate(section))


def decode(files: list[bytes], **section: object) -> np.ndarray:
    one = decoder(**section)
    found = tf.function(one.decode)(tf.constant(files))
    assert found.dtype == tf.uint8
    assert tuple(found.shape[1:]) == one.input.shape
    return found.numpy()


def encoded(pixels: np.ndarray, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


def test_files_of_one_batch_may_be_of_any_format_and_size():
    files = [encoded(LARGE, "PNG"), encoded(LARGE, "BMP"), encoded(LARGE, "WEBP", lossless=True), b""]
    files += [encoded(LARGE, "JPEG", quality=100, subsampling=0), encoded(LARGE[:, :, :1].repeat(3, 2), "GIF")]
    found = decode(files, size=[90, 120])
    np.testing.assert_array_equal(found[0], LARGE)
    np.testing.assert_array_equal(found[1], LARGE)
    np.testing.assert_array_equal(found[2], LARGE)
    assert not found[3].any()  # what fills a batch up
    assert np.abs(found[4].astype(int) - LARGE).mean() < 5
    assert np.abs(found[5].astype(int) - LARGE[:, :, :1]).mean() < 6  # 256 colours


def test_grey_and_colours():
    grey = LARGE[:, :, 0]
    files = [encoded(grey, "PNG"), encoded(grey, "BMP"), encoded(grey, "JPEG", quality=100)]
    alpha = [encoded(np.dstack([LARGE, np.full(LARGE.shape[:2], 99, np.uint8)]), "PNG")]
    for one in decode(files, size=[90, 120], channels=1)[:2]:
        np.testing.assert_array_equal(one[:, :, 0], grey)
    for one in decode(files, size=[90, 120])[:2]:
        np.testing.assert_array_equal(one, np.repeat(grey[:, :, None], 3, 2))
    np.testing.assert_array_equal(decode(alpha, size=[90, 120])[0], LARGE)
    luma = LARGE @ np.array([0.299, 0.587, 0.114])
    for kind in ("PNG", "BMP", "WEBP"):
        one = decode(
            [encoded(LARGE, kind, **({"lossless": True} if kind == "WEBP" else {}))], size=[90, 120], channels=1
        )
        assert np.abs(one[0, :, :, 0] - luma).max() < 4


@pytest.mark.parametrize("ratio", [1, 2, 4, 8])
def test_a_jpeg_is_decoded_as_small_as_it_may_be(ratio):
    smooth = np.asarray(Image.fromarray(stripes(2, 6, 8)).resize((160, 128), Image.Resampling.BICUBIC))
    file = encoded(smooth, "JPEG", quality=95)
    size = [128 // ratio, 160 // ratio]
    found = decode([file], size=size, fit="stretch")[0]
    np.testing.assert_array_equal(found, tf.io.decode_jpeg(file, 3, ratio=ratio))
    # One pixel more, and it is decoded twice as large and scaled down.
    if ratio > 1:
        more = [size[0] + 1, size[1]]
        larger = tf.io.decode_jpeg(file, 3, ratio=ratio // 2)
        (from_larger,) = resized(larger[None], (*more, 3), "stretch")
        np.testing.assert_array_equal(decode([file], size=more, fit="stretch")[0], from_larger)
    reference = np.asarray(Image.fromarray(smooth).resize(size[::-1], Image.Resampling.BOX), int)
    assert np.abs(found - reference).mean() < 4


def test_a_much_smaller_image_is_averaged():
    """A chessboard of single pixels is grey from afar; pixels picked out of it would be black or white."""
    board = (np.indices((96, 96)).sum(0) % 2 * 255).astype(np.uint8)[:, :, None].repeat(3, 2)
    found = decode([png(board)], size=[12, 12])
    assert np.abs(found.astype(int) - 127).max() < 12


def test_what_becomes_of_another_ratio_of_sides():
    wide = np.zeros((40, 80, 3), np.uint8)
    wide[:, 20:60] = 200
    stretched, cut, padded = (decode([png(wide)], size=[20, 20], fit=fit)[0] for fit in ("stretch", "crop", "pad"))
    assert (stretched[:, 6:14] > 190).all()
    assert (stretched[:, [0, -1]] < 10).all()
    assert (cut > 190).all()  # the middle
    assert not padded[:5].any()
    assert not padded[15:].any()
    assert (padded[5:15, 6:14] > 190).all()
    high = wide.transpose(1, 0, 2)
    for fit, one in (("crop", cut), ("pad", padded)):
        np.testing.assert_array_equal(decode([png(high)], size=[20, 20], fit=fit)[0], one.transpose(1, 0, 2))


@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
def test_sizes_at_the_limits(fit):
    images = [stripes(0, *sides) for sides in ((1, 1), (1, 50), (50, 1), (3, 1000), (17, 31))]
    files = [file for pixels in images for file in (png(pixels), encoded(pixels, "JPEG"))]
    assert decode(files, size=[7, 13], fit=fit).shape == (10, 7, 13, 3)


def test_damaged_files_are_told():
    for file in (png(LARGE)[:100], encoded(LARGE, "JPEG")[:50], b"no image"):
        with pytest.raises(tf.errors.InvalidArgumentError):
            decode([file], size=[8, 8])


def test_numbers_are_from_0_to_1_and_training_may_change_them():
    one = decoder(size=[20, 16])
    pixels = tf.constant(np.array([[[[0, 128, 255]]]], np.uint8))
    np.testing.assert_allclose(one.finish(pixels, None), [[[[0, 128 / 255, 1]]]])
    assert not one.augments
    assert decoder(size=[20, 16], augment={}).augments


def test_raw_images_are_scaled_in_batches():
    pixels = np.stack([stripes(number) for number in range(4)])
    same = RawImages(RAW, ImageInput.model_validate({}))
    np.testing.assert_array_equal(same.decode(tf.constant(pixels)), pixels)
    for fit in ("stretch", "crop", "pad"):
        smaller = RawImages(RAW, ImageInput.model_validate({"size": [8, 12], "fit": fit}))
        found = smaller.decode(tf.constant(pixels))
        np.testing.assert_array_equal(found, decode([png(one) for one in pixels], size=[8, 12], fit=fit))
        assert smaller.stored.shape.as_list() == [None, 20, 16, 3]


@pytest.mark.parametrize(("kind", "fit"), [("JPEG", "stretch"), ("JPEG", "crop"), ("PNG", "crop"), ("WEBP", "stretch")])
def test_a_crop_is_cut_out_of_the_whole_image_and_scaled_once(kind, fit):
    """Also flipped; against slices of the decoded file, and TensorFlow's resize."""
    smooth = np.asarray(Image.fromarray(stripes(5, 12, 15)).resize((150, 120), Image.Resampling.BICUBIC))
    file = encoded(smooth, kind, **({"lossless": True} if kind == "WEBP" else {}))
    pixels = tf.io.decode_image(file, 3, expand_animations=False).numpy()
    one = decoder(size=[60, 60], fit=fit, augment={"flip": "both", "crop": 0.6})
    draws = Draws(3, tf.range(24, dtype=tf.int64))
    found = tf.function(one.prepare)(tf.constant([file] * 24), draws)
    top, left, height, width = (0, 15, 120, 120) if fit == "crop" else (0, 0, 120, 150)
    flipped = [0, 0]
    for number in range(24):
        kept, y, x = (float(draws.uniform(what)[number]) for what in ("crop", "crop y", "crop x"))
        kept = 0.6 + 0.4 * kept
        high, wide = round(height * kept), round(width * kept)
        first = top + min(round(height * y * (1 - kept)), height - high)
        before = left + min(round(width * x * (1 - kept)), width - wide)
        part = pixels[first : first + high, before : before + wide]
        for axis, what in enumerate(("flip y", "flip x")):
            if draws.uniform(what)[number] < 0.5:
                part = np.flip(part, axis)
                flipped[axis] += 1
        wanted = tf.image.resize(part, [60, 60], antialias=max(high, wide) > 120).numpy() / 255
        # A JPEG may be decoded at a half, or its edge with other neighbours.
        assert np.abs(found[number] - wanted).mean() < (0.01 if kind == "JPEG" else 1e-5), number
    assert 4 < min(flipped) <= max(flipped) < 20


def test_one_image_by_itself_is_that_of_a_batch():
    files = [encoded(LARGE, "JPEG"), png(LARGE), b""]
    one = decoder(size=[20, 30], augment={"flip": "both", "crop": 0.5, "contrast": 0.5, "rotate": 5})
    whole = tf.function(one.prepare)(tf.constant(files), Draws(1, tf.range(3, dtype=tf.int64)))
    for number, file in enumerate(files):
        alone = tf.function(one.prepare)(tf.constant([file]), Draws(1, tf.constant([number], tf.int64)))
        np.testing.assert_array_equal(alone[0], whole[number])
    np.testing.assert_array_equal(
        one.prepare(tf.constant(files), None)[0], one.prepare(tf.constant(files[:1]), None)[0]
    )
