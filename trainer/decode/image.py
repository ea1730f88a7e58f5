"""Images: files or raw pixels -> float32 from 0 to 1, of one size."""

from collections.abc import Callable

import tensorflow as tf

from beamfeed.contract.config.inputs import ImageInput
from beamfeed.contract.dataset.fields import Field
from beamfeed.trainer.decode.augment import WHITE, augment, crops, flips, recolored, turned, without_crop
from beamfeed.trainer.decode.draws import Draws
from beamfeed.trainer.models.signature import Input

RATIOS = (1, 2, 4, 8)  # by which a JPEG can be decoded smaller, at a fraction of the cost
CHANNELS = 3  # of encoded images, if the job does not say
SMALLER = 2.0  # by more than this, pixels are averaged: of every second one, some would not be looked at at all


class Images:
    """What encoded and raw images share: how they come to their size, and augmentation.

    Stored values become what a model gets in two steps: what may be kept in memory lies between them.

    Attributes:
      stored: of the values in the dataset, `[batch, ...]`.
      shape: height, width and channels that a model gets.
      input: of the model.
      keeps: whether decoded values are to be kept in memory.
      augments: whether training changes them.
      mixup: the parameter of mixing two windows; None where they are not mixed.
    """

    def __init__(self, section: ImageInput, stored: tf.TensorSpec, shape: tuple[int, int, int]):
        self._section = section
        self.stored = stored
        self.shape = shape
        self.input = Input(shape, "float32")
        self.keeps = section.cache == "decoded"
        self.augments = section.augment is not None
        self.mixup = section.augment.mixup if section.augment is not None else None

    def finish(self, values: tf.Tensor, draws: Draws | None) -> tf.Tensor:
        """Decoded values -> the model's input, float32 from 0 to 1; with draws changed by chance."""
        section = self._section.augment
        if draws is None or section is None:
            return tf.cast(values, tf.float32) / WHITE
        return augment(values, section, draws)

    def prepare(self, values: tf.Tensor, draws: Draws | None) -> tf.Tensor:
        """Stored values -> the model's input at once.

        Where it takes less work than the two steps, it does not give their very numbers.
        """
        return self.finish(self.decode(values), draws)

    def decode(self, values: tf.Tensor) -> tf.Tensor:
        """Stored values -> uint8 `[batch, height, width, channels]`; empty strings, which fill up, are zeros."""
        raise NotImplementedError


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
        return _map(self._decode, {"contents": values}, tf.TensorSpec(self.shape, tf.uint8))

    def prepare(self, values: tf.Tensor, draws: Draws | None) -> tf.Tensor:
        """A crop is cut out of the whole image, and then scaled: once, from as many pixels as there are."""
        section = self._section.augment
        if self._section.fit == "pad":
            return super().prepare(values, draws)
        spec = tf.TensorSpec(self.shape, tf.float32)
        if draws is None or section is None:
            return _map(self._decode_crop, {"contents": values}, spec) / WHITE
        drawn = {"contents": values, **dict(zip(("vertical", "horizontal"), flips(section, draws), strict=True))}
        if section.crop is not None:
            drawn |= dict(zip(("share", "top", "left"), crops(section, draws), strict=True))
        decoded = _map(self._decode_crop, {name: tensor for name, tensor in drawn.items() if tensor is not None}, spec)
        if section.rotate is not None:
            decoded = turned(decoded, without_crop(section), draws)
        return recolored(decoded, section, draws)

    def _decode(self, contents: tf.Tensor) -> tf.Tensor:
        """One image, uint8 `[height, width, channels]`."""

        def finish(image: tf.Tensor) -> tf.Tensor:
            return resized(image[None], self.shape, self._section.fit)[0]

        return decoded(contents, self.shape, self._wanted, finish, covers=self._section.fit != "pad")

    def _decode_crop(
        self,
        contents: tf.Tensor,
        vertical: tf.Tensor | None = None,
        horizontal: tf.Tensor | None = None,
        **part: tf.Tensor,
    ) -> tf.Tensor:
        """One image or a part of it, see `part_of`, float32 `[height, width, channels]`, from 0 to 255."""

        def window(size: tf.Tensor) -> tf.Tensor:
            return part_of(self._wanted(size), **part) if part else self._wanted(size)

        def finish(image: tf.Tensor) -> tf.Tensor:
            for axis, flip in enumerate((vertical, horizontal)):
                if flip is not None:
                    image = _flipped(image, flip, axis)
            return tf.ensure_shape(_interpolated(image[None], tf.constant(self.shape[:2]))[0], self.shape)

        return decoded(contents, self.shape, window, finish)

    def _wanted(self, size: tf.Tensor) -> tf.Tensor:
        """The window of an image of this size that is scaled: all of it, unless another ratio of sides is cut off."""
        return middle_of(size, *self.shape[:2]) if self._section.fit == "crop" else whole(size)


def _map(function: Callable[..., tf.Tensor], values: dict[str, tf.Tensor], spec: tf.TensorSpec) -> tf.Tensor:
    """A function of one of each on all of `[batch]`; without a loop and copying where that is known to be one."""
    if all(tensor.shape[0] == 1 for tensor in values.values()):
        return function(**{name: tensor[0] for name, tensor in values.items()})[None]
    return tf.map_fn(lambda element: function(**element), values, fn_output_signature=spec)


def decoded(
    contents: tf.Tensor,
    shape: tuple[int, int, int],
    window: Callable[[tf.Tensor], tf.Tensor],
    finish: Callable[[tf.Tensor], tf.Tensor],
    covers: bool = True,
) -> tf.Tensor:
    """One file -> what `finish` makes of the wanted part; an empty string counts as a black image.

    Args:
      contents: of the file.
      shape: height, width and channels.
      window: of an image of some size, int32 `[2]`, the part that is wanted: top, left, height and width, int32 `[4]`.
      finish: from that part, uint8 `[any height, any width, channels]`, to the result.
      covers: whether the part is to cover the whole shape, and not only to fit into it.
    """
    channels = shape[2]

    def jpeg() -> tuple[tf.Tensor, tf.Tensor]:
        size = tf.image.extract_jpeg_shape(contents)[:2]
        box = window(size)
        larger = box[2:] // tf.constant(shape[:2])
        by = tf.reduce_min(larger) if covers else tf.reduce_max(larger)
        place = sum(tf.cast(by >= ratio, tf.int32) for ratio in RATIOS[1:])
        ways = [lambda ratio=ratio: tf.io.decode_jpeg(contents, channels, ratio) for ratio in RATIOS]
        # To crop while decoding takes more time than it saves where nothing is cropped.
        is_cut = (place == 0) & tf.reduce_any(box[2:] < size)
        part = [lambda: tf.io.decode_and_crop_jpeg(contents, box, channels)]
        return tf.switch_case(tf.where(is_cut, len(RATIOS), place), [*ways, *part]), is_cut

    def png() -> tuple[tf.Tensor, tf.Tensor]:
        return tf.io.decode_png(contents, channels), tf.constant(False)

    def other() -> tuple[tf.Tensor, tf.Tensor]:
        return _with_channels(tf.io.decode_image(contents, expand_animations=False), channels), tf.constant(False)

    def black() -> tuple[tf.Tensor, tf.Tensor]:
        return tf.zeros([1, 1, channels], tf.uint8), tf.constant(False)

    begin = tf.strings.substr(contents, 0, 3)
    kind = tf.where(begin == b"\xff\xd8\xff", 1, tf.where(begin == b"\x89PN", 2, 3))
    kind = tf.where(tf.strings.length(contents) == 0, 0, kind)
    # The branches do as little as can be: what they hold takes time also where another one is taken.
    image, is_cut = tf.switch_case(kind, [black, jpeg, png, other])
    size = tf.shape(image)[:2]
    top, left, height, width = tf.unstack(tf.where(is_cut, whole(size), window(size)))
    return finish(tf.ensure_shape(image[top : top + height, left : left + width], [None, None, channels]))


def _flipped(image: tf.Tensor, flip: tf.Tensor, axis: int) -> tf.Tensor:
    return tf.cond(flip, lambda: tf.reverse(image, [axis]), lambda: image)


def whole(size: tf.Tensor) -> tf.Tensor:
    """The window of all of an image, int32 `[4]`."""
    return tf.concat([tf.zeros_like(size), size], 0)


def middle_of(size: tf.Tensor, height: int, width: int) -> tf.Tensor:
    """The window of the largest part in the middle with the ratio of these sides, int32 `[4]`."""
    high, wide = size[0], size[1]
    kept_high = tf.clip_by_value((wide * height + width // 2) // width, 1, high)
    kept_wide = tf.clip_by_value((high * width + height // 2) // height, 1, wide)
    sides = tf.stack([kept_high, kept_wide])
    return tf.concat([(size - sides) // 2, sides], 0)


def part_of(window: tf.Tensor, share: tf.Tensor, top: tf.Tensor, left: tf.Tensor) -> tf.Tensor:
    """The window of a part: the share of the sides that is kept, and what is left out at the top and the left."""
    sides = tf.cast(window[2:], tf.float32)
    size = tf.maximum(tf.cast(tf.round(sides * share), tf.int32), 1)
    first = tf.minimum(tf.cast(tf.round(sides * tf.stack([top, left])), tf.int32), window[2:] - size)
    return tf.concat([window[:2] + first, size], 0)


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
    """Uint8 `[batch, height, width, channels]` of any size -> the same of another size.

    Args:
      images: to scale.
      shape: height, width and channels that are wanted.
      fit: what becomes of another ratio of the sides: stretch, crop or pad.
    """
    height, width, _ = shape
    if fit == "crop":
        top, left, high, wide = tf.unstack(middle_of(tf.shape(images)[1:3], height, width))
        images = images[:, top : top + high, left : left + wide]
    inner = _inside(images, height, width) if fit == "pad" else tf.constant([height, width])
    scaled = tf.cast(_interpolated(images, inner) + 0.5, tf.uint8)
    if fit == "pad":
        before = (tf.constant([height, width]) - inner) // 2
        after = tf.constant([height, width]) - inner - before
        scaled = tf.pad(scaled, tf.pad(tf.stack([before, after], axis=1), [[1, 1], [0, 0]]))
    return tf.ensure_shape(scaled, [None, *shape])


def _inside(images: tf.Tensor, height: int, width: int) -> tf.Tensor:
    """Height and width, int32 `[2]`, of the whole image within the wanted size."""
    high, wide = tf.shape(images)[1], tf.shape(images)[2]
    scale = tf.minimum(height / high, width / wide)
    size = tf.cast(tf.round(tf.cast(tf.stack([high, wide]), scale.dtype) * scale), tf.int32)
    return tf.clip_by_value(size, 1, [height, width])


def _interpolated(images: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Float32: linear interpolation; pixels are averaged where the image becomes much smaller.

    Of float32 TensorFlow makes them in about half the time that it takes of uint8.
    """
    before = tf.cast(tf.shape(images)[1:3], tf.float32)
    shrinks = tf.reduce_max(before / tf.cast(size, tf.float32)) > SMALLER
    return tf.cond(
        shrinks,
        lambda: tf.image.resize(images, size, antialias=True),
        lambda: tf.raw_ops.ResizeBilinear(images=tf.cast(images, tf.float32), size=size, half_pixel_centers=True),
    )


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
