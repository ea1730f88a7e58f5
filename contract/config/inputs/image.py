"""Images as a model gets them: their size, and how training varies them. Sections of `train.inputs`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from beamfeed.contract.config.section import Section

LARGEST = 8192  # pixels of a side


class Augment(Section):
    """What training changes in each image by chance, anew in each epoch. Evaluation and serving change nothing."""

    example: ClassVar[str] = "{flip: horizontal, crop: 0.9}"

    flip: Literal["horizontal", "vertical", "both"] | None = Field(
        default=None, description="horizontal: left and right are exchanged in every second image. vertical: top and "
        "bottom. both: each by itself.",
    )  # fmt: skip
    crop: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None,
        description="The smallest share of each side that a crop at a random place keeps, such as 0.8; what is kept is "
        "scaled to the whole size.",
    )
    rotate: Annotated[float, Field(gt=0, le=180)] | None = Field(
        default=None, description="Degrees by which an image is turned at most, to either side; edges are mirrored."
    )
    brightness: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None, description="What is added to or taken off all pixels at most, as a share of their range."
    )
    contrast: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description="The distance of pixels from their mean is changed by this share at most."
    )
    cutout: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description="Side of a grey rectangle at a random place, as a share of the image's sides."
    )
    mixup: Annotated[float, Field(gt=0, le=10)] | None = Field(
        default=None,
        description="Mixes two images of a batch and what is wanted of them; the shares are from a beta distribution "
        "with this parameter, such as 0.2 (Zhang et al. 2017). Batches of a device must have an even size.",
    )


class ImageInput(Section):
    """A field of images."""

    example: ClassVar[str] = "{size: [64, 64], channels: 1}"

    size: tuple[Annotated[int, Field(ge=1, le=LARGEST)], Annotated[int, Field(ge=1, le=LARGEST)]] | None = Field(
        default=None,
        description="Height and width that a model gets. Needed for encoded images; others stay as they are without.",
    )
    channels: Literal[1, 3] | None = Field(
        default=None, description="1: grey. 3: colours, also of grey images, the default for encoded ones."
    )
    fit: Literal["crop", "stretch", "pad"] = Field(
        default="crop",
        description="How an image with another ratio of sides gets to its size: its middle is cut out, it is "
        "stretched, or black is put around it.",
    )
    cache: Literal["none", "decoded"] = Field(
        default="none",
        description="decoded: decodes a split once and keeps it in memory at its size, a byte for each channel of a "
        "pixel; it is augmented anew in each epoch. Crops are then of the scaled image, not of the whole one.",
    )
    augment: Augment | None = None
