"""Images: files or raw pixels -> float32 from 0 to 1, of one size."""

import tensorflow as tf

from beamfeed.contract.config.inputs.image import ImageInput
from beamfeed.contract.dataset.fields import Field
from beamfeed.trainer.decode.augment import WHITE, augment
from beamfeed.trainer.decode.draws import Draws
from beamfeed.trainer.models.signature import Input

RATIOS = (1, 2, 4, 8)  # by which a JPEG can be decoded smaller, at a fraction of the cost
CHANNELS = 3  # of encoded images, if the job does not say
SMALLER = 2.0  # by more than this, pixels are averaged: of every second one, some would not be looked at at all


class Images:
    """What encoded and raw images share: how they come to their size, and augmentation.

    Args:
      section: of the job.
      stored: of the values in the dataset.
      size: height, width and channels that a model gets.
    """

    def __init__(self, section: ImageInput, stored: tf.TensorSpec, size: tuple[int, int, int]):
        self._section = section
        self.stored = stored
        self.shape = size
        self.input = Input(size, "float32")
        self.keeps = section.cache == "decoded"
        self.augments = section.augment is not None
        self.mixup = section.augment.mixup if section.augment is not None else None

    def finish(self, values: tf.Tensor) -> tf.Tensor:
        """Uint8 -> float32, from 0 to 1."""
        return tf.cast(values, tf.float32) / WHITE

    def augment(self, values: tf.Tensor, draws: Draws) -> tf.Tensor:
        """The same, changed by chance."""
        return augment(values, self._section.augment, draws) if self._section.augment else self.finish(values)


class EncodedImages(Images):
    """Files of images: JPEG, PNG, BMP, GIF and WebP (of these the first picture).

    A JPEG that is at least twice as large as wanted is decoded at a half, a quarter or an eighth of its size.
    """

    def __init__(self, field: Field, section: ImageInput):
        assert section.size is not None
        super().__init__(section, tf.TensorSpec([None], tf.string), (*section.size, section.channels or CHANNELS))

    def decode(self, values: tf.Tensor) -> tf.Tensor:
        """Strings `[batch]` -> uint8 `[batch, height, width, channels]`; an empty string becomes black.

        Raises:
          tf.errors.InvalidArgumentError: if one is no image.
        """
        return tf.map_fn(self._decode, values, fn_output_signature=tf.TensorSpec(self.shape, tf.uint8))

    def _decode(self, contents: tf.Tensor) -> tf.Tensor:
        channels = self.shape[2]

        def png() -> tf.Tensor:
            return resized(tf.io.decode_png(contents, channels), self.shape, self._section.fit)

        def other() -> tf.Tensor:
            found = tf.io.decode_image(contents, expand_animations=False)
            return resized(_with_channels(found, channels), self.shape, self._section.fit)

        kinds = [lambda: tf.zeros(self.shape, tf.uint8), lambda: self._decode_jpeg(contents), png, other]
        begin = tf.strings.substr(contents, 0, 3)
        kind = tf.where(begin == b"\xff\xd8\xff", 1, tf.where(begin == b"\x89PN", 2, 3))
        return tf.ensure_shape(tf.switch_case(tf.where(tf.strings.length(contents) == 0, 0, kind), kinds), self.shape)

    def _decode_jpeg(self, contents: tf.Tensor) -> tf.Tensor:
        """At the smallest size that is no smaller than the image becomes in the end."""
        height, width, channels = self.shape
        size = tf.image.extract_jpeg_shape(contents)
        larger = tf.stack([size[0] // height, size[1] // width])
        by = tf.reduce_max(larger) if self._section.fit == "pad" else tf.reduce_min(larger)
        place = sum(tf.cast(by >= ratio, tf.int32) for ratio in RATIOS[1:])
        found = tf.switch_case(
            place, [lambda ratio=ratio: tf.io.decode_jpeg(contents, channels, ratio) for ratio in RATIOS]
        )
        return resized(found, self.shape, self._section.fit)


class RawImages(Images):
    """Images of one size that the dataset holds as numbers: uint8 `[height, width, channels]`."""

    def __init__(self, field: Field, section: ImageInput):
        height, width, channels = (size or 1 for size in field.shape)
        stored = tf.TensorSpec([None, height, width, channels], tf.uint8)
        super().__init__(section, stored, (*(section.size or (height, width)), channels))

    def decode(self, values: tf.Tensor) -> tf.Tensor:
        """Uint8 `[batch, ...]` -> the same of the wanted size."""
        if tuple(values.shape[1:]) == self.shape:
            return values
        return resized(values, self.shape, self._section.fit)


def resized(images: tf.Tensor, shape: tuple[int, int, int], fit: str) -> tf.Tensor:
    """Uint8 `[..., height, width, channels]`, one or a batch -> the same of another size.

    Args:
      images: of any size.
      shape: height, width and channels that are wanted.
      fit: what becomes of another ratio of the sides: stretch, crop or pad.
    """
    one = images.shape.rank == 3
    batch = images[None] if one else images
    height, width, _ = shape
    if fit == "crop":
        batch = _middle(batch, height, width)
    inner = _inside(batch, height, width) if fit == "pad" else tf.constant([height, width])
    scaled = _scaled(batch, inner)
    if fit == "pad":
        before = (tf.constant([height, width]) - inner) // 2
        after = tf.constant([height, width]) - inner - before
        scaled = tf.pad(scaled, tf.pad(tf.stack([before, after], axis=1), [[1, 1], [0, 0]]))
    return tf.ensure_shape(scaled[0] if one else scaled, shape if one else [None, *shape])


def _middle(batch: tf.Tensor, height: int, width: int) -> tf.Tensor:
    """The largest part in the middle that has the wanted ratio of sides."""
    high, wide = tf.shape(batch)[1], tf.shape(batch)[2]
    kept_high = tf.clip_by_value((wide * height + width // 2) // width, 1, high)
    kept_wide = tf.clip_by_value((high * width + height // 2) // height, 1, wide)
    top, left = (high - kept_high) // 2, (wide - kept_wide) // 2
    return batch[:, top : top + kept_high, left : left + kept_wide]


def _inside(batch: tf.Tensor, height: int, width: int) -> tf.Tensor:
    """Height and width, int32 `[2]`, of the whole image within the wanted size."""
    high, wide = tf.shape(batch)[1], tf.shape(batch)[2]
    scale = tf.minimum(height / high, width / wide)
    size = tf.cast(tf.round(tf.cast(tf.stack([high, wide]), scale.dtype) * scale), tf.int32)
    return tf.clip_by_value(size, 1, [height, width])


def _scaled(batch: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Linear interpolation; pixels are averaged where the image becomes much smaller."""
    before = tf.cast(tf.shape(batch)[1:3], tf.float32)
    much = tf.reduce_max(before / tf.cast(size, tf.float32)) > SMALLER
    found = tf.cond(
        much,
        lambda: tf.image.resize(batch, size, antialias=True),
        lambda: tf.raw_ops.ResizeBilinear(images=batch, size=size, half_pixel_centers=True),
    )
    return tf.cast(found + 0.5, tf.uint8)


def _with_channels(image: tf.Tensor, channels: int) -> tf.Tensor:
    """An image of 1, 2, 3 or 4 channels, the last of two or four being opacity -> one of so many."""
    colours = tf.shape(image)[2] >= 3
    if channels == 3:
        return tf.cond(colours, lambda: image[:, :, :3], lambda: tf.repeat(image[:, :, :1], 3, axis=2))
    return tf.cond(
        colours,
        lambda: tf.image.rgb_to_grayscale(tf.ensure_shape(image[:, :, :3], [None, None, 3])),
        lambda: image[:, :, :1],
    )
