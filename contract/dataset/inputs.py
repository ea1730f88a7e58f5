"""Whether the section `train.inputs` fits a dataset. Pure; no TensorFlow, so that a mistake is told at once."""

from collections.abc import Mapping

from beamfeed.contract.config.inputs import ImageInput
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.goals import inputs_of
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.errors import UserError, near_miss

KEY = "train.inputs"
IMAGE = "image"  # the content of a field of encoded images


def check_inputs(inputs: Mapping[str, ImageInput], manifest: Manifest) -> None:
    """Says what the section asks for that the dataset does not have, and what it leaves open.

    Raises:
      UserError: for the first such thing, with its key.
    """
    fields = {field.name: field for field in inputs_of(manifest)}
    fits = [name for name, field in fields.items() if is_encoded(field) or is_raw_image(field)]
    for name, section in inputs.items():
        if name not in fits:
            problem = f"the field {name!r} holds no images" if name in fields else f"the dataset has no input {name!r}"
            has = f"its images: {', '.join(fits)}" if fits else "it has no images"
            raise UserError(f"{KEY}.{name}: {problem}{near_miss(name, fits) if name not in fields else ''} ({has})")
        _check_section(name, section, fields[name])
        if section.augment is not None and section.augment.mixup is not None and len(fields) > 1:
            also = ", ".join(other for other in fields if other != name)
            raise UserError(f"{KEY}.{name}.augment.mixup: is for images alone, and a model also gets {also}")
    for name, field in fields.items():
        if field.content and not is_encoded(field):
            problem = f"the field {name!r} holds {field.content!r}"
            raise UserError(f"dataset {manifest.name}: {problem}, which nothing decodes")
        if is_encoded(field) and name not in inputs:
            raise UserError(
                f"{KEY}.{name}: is missing: the field holds encoded images, so say how large a model gets them, "
                "such as {size: [64, 64]}"
            )


def is_encoded(field: Field) -> bool:
    """Whether a field holds images as files."""
    return field.content == IMAGE and field.dtype == "bytes" and field.shape == () and field.per == "row"


def is_raw_image(field: Field) -> bool:
    """Whether a field may be taken for images: uint8 of height, width and channels."""
    return field.dtype == "uint8" and len(field.shape) == 3 and field.shape[2] in (1, 3) and field.per == "row"


def _check_section(name: str, section: ImageInput, field: Field) -> None:
    if is_encoded(field) and section.size is None:
        raise UserError(f"{KEY}.{name}.size: is missing, it must be height and width, such as [64, 64]")
    if is_raw_image(field) and section.channels not in (None, field.shape[2]):
        raise UserError(f"{KEY}.{name}.channels: is {section.channels}, the field {name!r} has {field.shape[2]}")
