"""Images changed by chance, a batch at a time. Pure; each image's changes depend on its own draws alone."""

import math

import tensorflow as tf

from beamfeed.contract.config.inputs import Augment
from beamfeed.trainer.decode.draws import Draws

GREY = 0.5  # of what cutout covers
WHITE = 255.0


def augment(images: tf.Tensor, section: Augment, draws: Draws) -> tf.Tensor:
    """Changes images: first their geometry, by one interpolation, then their pixels.

    Args:
      images: uint8 `[batch, height, width, channels]`.
      section: what is changed.
      draws: of each image.

    Returns:
      Float32 of the same shape, from 0 to 1.
    """
    if section.rotate is not None:
        values = turned(images, section, draws)
    elif section.flip is not None or section.crop is not None:
        values = _cropped(images, section, draws)
    else:
        values = tf.cast(images, tf.float32)
    return recolored(values, section, draws)


def without_crop(section: Augment) -> Augment:
    """What is left to do where an image was cropped and flipped as it was decoded."""
    return section.model_copy(update={"crop": None, "flip": None})


def recolored(values: tf.Tensor, section: Augment, draws: Draws) -> tf.Tensor:
    """Float32 from 0 to 255, `[batch, height, width, channels]` -> from 0 to 1, with light and cutout."""
    if section.contrast is not None or section.brightness is not None:
        values = _relit(values, section, draws)
    else:
        values = values * (1 / WHITE)
    return values if section.cutout is None else _covered(values, section.cutout, draws)


def flips(section: Augment, draws: Draws) -> tuple[tf.Tensor | None, tf.Tensor | None]:
    """Bool `[batch]`: whether top and bottom are exchanged, and whether left and right; None where they never are."""
    vertical = draws.chance("flip y") if section.flip in ("vertical", "both") else None
    return vertical, draws.chance("flip x") if section.flip in ("horizontal", "both") else None


def crops(section: Augment, draws: Draws) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Float32 `[batch]`: the share of the sides that a crop keeps, and what it leaves out at the top and the left."""
    if section.crop is None:
        return tf.ones_like(draws.numbers, tf.float32), *[tf.zeros_like(draws.numbers, tf.float32)] * 2
    share = draws.uniform("crop", section.crop, 1.0)
    return share, draws.uniform("crop y") * (1 - share), draws.uniform("crop x") * (1 - share)


def _cropped(images: tf.Tensor, section: Augment, draws: Draws) -> tf.Tensor:
    """Crops and flips: a box whose end is before its beginning is a flipped one."""
    share, top, left = crops(section, draws)
    edges = []
    for start, flip in zip((top, left), flips(section, draws), strict=True):
        end = start + share
        edges.append((start, end) if flip is None else (tf.where(flip, end, start), tf.where(flip, start, end)))
    (top, bottom), (left, right) = edges
    boxes = tf.stack([top, left, bottom, right], axis=1)
    height, width, channels = images.shape[1:]
    cropped = tf.image.crop_and_resize(images, boxes, tf.range(tf.shape(images)[0]), [height, width])
    return tf.ensure_shape(cropped, [None, height, width, channels])


def turned(images: tf.Tensor, section: Augment, draws: Draws) -> tf.Tensor:
    """Crops, flips and turns images, about the middle of what is kept; beyond the edges they are mirrored.

    For each pixel of the result, the place in the image that it is from.

    Returns:
      Float32, in the range of the images.
    """
    assert section.rotate is not None
    height, width, channels = images.shape[1:]
    share, top, left = crops(section, draws)
    vertical, horizontal = (1.0 if flip is None else tf.where(flip, -1.0, 1.0) for flip in flips(section, draws))
    most = math.radians(section.rotate)
    angle = draws.uniform("rotate", -most, most)
    sine, cosine = share * tf.sin(angle), share * tf.cos(angle)
    middle_y, middle_x = (height - 1) / 2, (width - 1) / 2
    from_y = (height - 1) * (top + share / 2)
    from_x = (width - 1) * (left + share / 2)
    a, b = horizontal * cosine, -vertical * sine  # x of the image, by x and y of the result
    c, d = horizontal * sine, vertical * cosine
    nothing = tf.zeros_like(share)
    transforms = tf.stack(
        [a, b, from_x - a * middle_x - b * middle_y, c, d, from_y - c * middle_x - d * middle_y, nothing, nothing], 1
    )
    turned_images = tf.raw_ops.ImageProjectiveTransformV3(
        images=tf.cast(images, tf.float32), transforms=transforms, output_shape=[height, width], fill_value=0.0,
        interpolation="BILINEAR", fill_mode="REFLECT",
    )  # fmt: skip
    return tf.ensure_shape(turned_images, [None, height, width, channels])


def _relit(values: tf.Tensor, section: Augment, draws: Draws) -> tf.Tensor:
    """From 0 to 1: contrast about the mean of each image, and brightness; what leaves the range is cut off.

    Each pass over the pixels counts here: there is one for the mean, and three for the rest.
    """
    factor, added = tf.ones_like(draws.numbers, tf.float32), tf.zeros_like(draws.numbers, tf.float32)
    if section.contrast is not None:
        factor = draws.uniform("contrast", 1 - section.contrast, 1 + section.contrast)
    if section.brightness is not None:
        added = draws.uniform("bright", -section.brightness, section.brightness)
    factor, added = (values[:, None, None, None] for values in (factor, added))
    mean = tf.reduce_mean(values, axis=[1, 2, 3], keepdims=True)
    relit = values * (factor / WHITE) + (mean * ((1 - factor) / WHITE) + added)
    return tf.raw_ops.ClipByValue(t=relit, clip_value_min=0.0, clip_value_max=1.0)


def _covered(values: tf.Tensor, share: float, draws: Draws) -> tf.Tensor:
    """A grey rectangle, at the edges only a part of it (DeVries, Taylor 2017)."""
    covered = []
    for size, purpose in ((values.shape[1], "cutout y"), (values.shape[2], "cutout x")):
        middle = draws.uniform(purpose) * size
        away = tf.abs(tf.range(size, dtype=tf.float32) + 0.5 - middle[:, None])
        covered.append(away < share * size / 2)
    mask = covered[0][:, :, None, None] & covered[1][:, None, :, None]
    return tf.where(mask, GREY, values)
