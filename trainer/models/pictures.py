"""What models of images share: which inputs are images, and what stands beside them."""

import keras

from beamfeed.contract.errors import UserError
from beamfeed.trainer.models.signature import Input, Signature
from beamfeed.trainer.models.tabular import inputs_beside, is_text

MIDDLE = 0.5  # of an image's values, which are from 0 to 1


def is_image(one: Input) -> bool:
    """Whether an input is an image: float32 `[height, width, channels]`."""
    return one.dtype == "float32" and not one.in_rows and len(one.shape) == 3 and None not in one.shape


def images_of(signature: Signature, model: str, least: int = 1) -> list[str]:
    """The names of the inputs that are images, each side of at least so many pixels.

    Raises:
      UserError: if there is none, or one is too small.
    """
    found = [name for name, one in signature.inputs.items() if is_image(one)]
    if not found:
        raise UserError(
            f"train.model.name: {model!r} needs images, and the dataset has none that a model gets as float32; "
            "train.inputs says how a field of images is decoded"
        )
    for name in found:
        height, width, _ = signature.inputs[name].shape
        if min(height or 0, width or 0) < least:
            needed = f"the model {model!r} needs at least {least} by {least}"
            raise UserError(f"train.inputs.{name}.size: is [{height}, {width}], {needed}")
    return found


def beside_images(
    by_name: dict[str, keras.KerasTensor], signature: Signature, images: list[str], model: str
) -> list[keras.KerasTensor]:
    """The other inputs as dense layers take them, `[batch, numbers]` each.

    Raises:
      UserError: if one is neither numbers nor categories.
    """
    parts = []
    for name, one in signature.inputs.items():
        if name in images:
            continue
        if is_text(one):
            raise UserError(f"train.model.name: {model!r} takes no text, and {name!r} is one; there is your own class")
        parts += inputs_beside(by_name[name], name, one, model, None)
    return parts
