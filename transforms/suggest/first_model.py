"""Which model takes the inputs of a dataset as they are, and how large it gets images. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.inputs import is_encoded, is_raw_image

SIDE = 64  # pixels of images of which nothing is known
LARGEST = 128  # pixels of a side that a model gets, if nobody says more: a CPU takes minutes for more
LEAST = 4  # pixels of a side that the model of images needs


@dataclass(frozen=True)
class FirstModel:
    """What a job file says of the model.

    Attributes:
      model: the section `train.model`.
      inputs: the section `train.inputs`.
    """

    model: dict[str, Any]
    inputs: dict[str, Any] = field(default_factory=dict)

    @property
    def is_own(self) -> bool:
        """Whether none of Beamfeed's own takes the inputs, and the user has to write one."""
        return "class" in self.model


def first_model(inputs: Sequence[Field], sizes: Mapping[str, Sequence[tuple[int, int]]]) -> FirstModel:
    """A model that takes these inputs.

    Args:
      inputs: all that a model gets.
      sizes: height and width of some images of fields that hold them encoded, by the field's name.
    """
    sides = {one.name: image_side(sizes.get(one.name, ())) for one in inputs if is_encoded(one)}
    decoded: dict[str, Any] = {name: {"size": [side, side]} for name, side in sides.items()}
    raw = [one for one in inputs if is_raw_image(one) and _shorter(one) >= LEAST]
    others = [one for one in inputs if one.name not in sides and one not in raw]
    if (sides or raw) and all(map(_is_dense, others)):
        least = min([*sides.values(), *map(_shorter, raw)])
        stem = residual_stem(least)
        model: dict[str, Any] = {"name": "residual"} | ({"stem": stem} if stem > 1 else {})
        return FirstModel(model, {one.name: decoded.get(one.name, {}) for one in inputs if one not in others})
    if not sides and all(map(_is_dense, inputs)):
        return FirstModel({"name": "tabular"})
    if not sides and all(_is_dense(one) or _are_words(one) for one in inputs):
        return FirstModel({"name": "text"})
    if all(one.name in sides or _is_number(one) for one in inputs):
        return FirstModel({"name": "multi_input"}, decoded)
    return FirstModel({"class": "my_package.models:MyModel"}, decoded)


def residual_stem(side: int) -> int:
    """By what the model of images first divides the sides of images, whose shorter one has so many pixels."""
    return 1 if side < 48 else 2 if side < 96 else 4


def image_side(sizes: Sequence[tuple[int, int]]) -> int:
    """The pixels of a side that fit most images, given the height and width of some."""
    shorter = sorted(map(min, sizes))
    return max(LEAST, min(shorter[len(shorter) // 2], LARGEST)) if shorter else SIDE


def _shorter(image: Field) -> int:
    """The pixels of the shorter side of raw images."""
    return min(size or 0 for size in image.shape[:2])


def _is_dense(one: Field) -> bool:
    """Whether every model of several inputs takes it: float32 of one shape, or one category."""
    return not one.is_ragged and (one.dtype == "float32" or (_is_category(one) and not one.shape))


def _are_words(one: Field) -> bool:
    """Whether the model of texts takes it: as many words in each row."""
    return _is_category(one) and len(one.shape) == 1 and not one.is_ragged


def _is_category(one: Field) -> bool:
    return one.dtype == "int64" and bool(one.sizes)


def _is_number(one: Field) -> bool:
    """Whether the model of numbers of any dtype takes it: of one shape, and no categories."""
    return not (one.is_ragged or one.sizes or one.dtype == "bytes" or one.dtype.startswith("complex"))
