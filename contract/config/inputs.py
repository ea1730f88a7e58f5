"""Images as a model gets them: their size, and how training varies them. Sections of `train.inputs`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from beamfeed.contract.config.section import Section

LARGEST = 8192  # pixels of a side


class Augment(Section):
    """Random changes to each training image, new in each epoch. Evaluation and serving change nothing."""

    example: ClassVar[str] = "{flip: horizontal, crop: 0.9}"

    flip: Literal["horizontal", "vertical", "both"] | None = Field(
        default=None, description="horizontal: left and right are swapped in half of the images. vertical: top and "
        "bottom. both: each independently.",
    )  # fmt: skip
    crop: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None,
        description="Smallest share of each side that a random crop keeps, such as 0.8; it is scaled to full size.",
    )
    rotate: Annotated[float, Field(gt=0, le=180)] | None = Field(
        default=None, description="Maximum rotation in degrees, to either side; edges are mirrored."
    )
    brightness: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None, description="Maximum change of brightness, as a share of the pixels' range."
    )
    contrast: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description="Maximum change of contrast about the image's mean, as a share."
    )
    cutout: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description="Side of a grey rectangle at a random position, as a share of the image's sides."
    )
    mixup: Annotated[float, Field(gt=0, le=10)] | None = Field(
        default=None,
        description="Mixes two images of a batch and their targets; the shares are drawn from a beta distribution "
        "with this parameter, such as 0.2 (Zhang et al. 2017). Each device's batch must be of even size.",
    )


class ImageInput(Section):
    """A field of images."""

    example: ClassVar[str] = "{size: [64, 64], channels: 1}"

    size: tuple[Annotated[int, Field(ge=1, le=LARGEST)], Annotated[int, Field(ge=1, le=LARGEST)]] | None = Field(
        default=None,
        description="Height and width for the model; required for encoded images. Left out, others stay as they are.",
    )
    channels: Literal[1, 3] | None = Field(
        default=None, description="1: gray. 3: RGB, also of gray images, the default for encoded ones."
    )
    fit: Literal["crop", "stretch", "pad"] = Field(
        default="crop",
        description="How another aspect ratio is fitted: cropped at the center, stretched, or padded with black.",
    )
    cache: Literal["none", "decoded"] = Field(
        default="none",
        description="decoded: decode a split once and keep it in memory at this size, a byte per channel and pixel; "
        "augmentation is new in each epoch. Crops are taken from the scaled image, not the original.",
    )
    augment: Augment | None = None
