"""Inputs that are images, as a model sees them: a batch as training gets it, and single ones."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.dataset.batches import windows_in
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer.models.images import is_image
from beamfeed.trainer.review.reading import open_split
from beamfeed.trainer.tasks.objective import Objective

SHOWN = 16  # images of a batch
BATCH_PICTURE = "training_images"  # what the picture of a batch is called


class TrainingInputs(NamedTuple):
    """Some inputs as training gets them.

    Attributes:
      images: by the name of the input, float32 `[windows, height, width, channels]`, from 0 to 1.
      is_changed: whether they are changed by chance.
    """

    images: Mapping[str, np.ndarray]
    is_changed: bool = False


def images_of(objective: Objective) -> list[str]:
    """The names of the inputs that are decoded to images."""
    decoded = objective.preparation.decoders if objective.preparation is not None else {}
    return [name for name in decoded if is_image(objective.signature.inputs[name])]


def training_inputs(job: TrainingJob, manifest: Manifest, objective: Objective) -> TrainingInputs:
    """The first images of a training run, as it gets them; none where inputs are no images."""
    names, preparation = images_of(objective), objective.preparation
    count = min(SHOWN, windows_in(manifest, "train") // 2 * 2)  # an even number: windows may be mixed in pairs
    if not names or preparation is None or not count:
        return TrainingInputs({})
    feed = job.train.feed
    batches = open_split(
        job, manifest, "train", 1, batch_size=count, fields=objective.fields(), shuffle=feed.shuffle, seed=feed.seed,
        preparation=preparation.once.training,
    )  # fmt: skip
    fields = next(iter(batches))
    return TrainingInputs({name: fields[name].numpy() for name in names}, preparation.training.augments)


def draw_inputs(figure: Any, inputs: TrainingInputs) -> None:
    """A batch of images, side by side; of several inputs the first."""
    name, images = next(iter(inputs.images.items()))
    figure.suptitle(f"{name}, as training gets it{': augmented' if inputs.is_changed else ''}", fontsize="medium")
    draw_grid(figure, list(images))


def draw_grid(figure: Any, images: Sequence[np.ndarray], titles: Sequence[str] = ()) -> None:
    """Images side by side, at most in so many columns as rows.

    Args:
      figure: or a part of one.
      images: `[height, width, channels]` each, of numbers from 0 to 1, or uint8.
      titles: of each, if they have any.
    """
    columns = max(1, int(np.ceil(np.sqrt(len(images)))))
    places = figure.subplots(-(-len(images) // columns), columns, squeeze=False).ravel()
    for axes in places:
        axes.set_axis_off()
    for place, (axes, image) in enumerate(zip(places, images, strict=False)):
        draw_image(axes, image)
        if titles:
            axes.set_title(titles[place], fontsize="x-small")


def draw_image(axes: Any, image: np.ndarray) -> None:
    """One image `[height, width, channels]`; of one channel, grey."""
    white = 255 if image.dtype == np.uint8 else 1.0
    grey = image.shape[2] == 1
    axes.imshow(image[:, :, 0] if grey else image, cmap="gray" if grey else None, vmin=0, vmax=white)
    axes.set_axis_off()
