"""The job file of a folder of images."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from beamfeed.contract import storage
from beamfeed.contract.config.label import MOST_CLASSES
from beamfeed.contract.config.sources.image import ImageSource
from beamfeed.contract.config.sources.table import TableSource
from beamfeed.contract.dataset.batches import choose_batch
from beamfeed.contract.storage import FileStat
from beamfeed.contract.text import counted, some_of
from beamfeed.transforms.sources.columns.labels import in_order
from beamfeed.transforms.sources.image.header import BadImage, read_header
from beamfeed.transforms.suggest.draft import Key, Part, Remark
from beamfeed.transforms.suggest.look import files_ending
from beamfeed.transforms.suggest.shared import Places, named_splits, output_key, split_by_hash, train_key
from beamfeed.transforms.suggest.windowing import Schedule

_LOOKED = 16  # images whose headers are read
_HEAD = 1 << 16  # bytes of each
_SPLIT = 100  # images, from which on some are held back
SIDE = 64  # pixels of images of which nothing is known
LARGEST = 128  # pixels of a side that a model gets, if nobody says more: a CPU takes minutes for more
LEAST = 4  # pixels of a side that the model of images needs


@dataclass(frozen=True)
class ImageFolder:
    """What was found of a folder of images.

    Attributes:
      files: all of them.
      folders: the names of folders that hold images, and how many.
      parts: the first folders below, by the split that their names tell; none where they do not.
      lists: tables beside the images that may be lists of them.
      sizes: height and width of some.
    """

    files: tuple[FileStat, ...]
    folders: dict[str, int]
    parts: dict[str, list[str]]
    lists: tuple[str, ...]
    sizes: tuple[tuple[int, int], ...] = ()

    @property
    def labelled(self) -> bool:
        """Whether folders look like classes."""
        return 2 <= len(self.folders) <= min(MOST_CLASSES, len(self.files) // 2) and not self.lists

    @property
    def trains(self) -> bool:
        """Whether a job can train on them as they are."""
        return self.labelled and bool(self.sizes)


def find_images(folder: str, *, surely: bool = False) -> ImageFolder | None:
    """What a folder or a glob holds of images; None where there are none, or, if not `surely`, more files of rows."""
    images, tables = list[FileStat](), list[FileStat]()
    with suppress(OSError):
        images = files_ending(folder, ImageSource.suffixes)
        tables = files_ending(folder, TableSource.suffixes)
    if not images or (len(tables) > len(images) and not surely):
        return None
    tops = {storage.below(file.path, [folder]).rpartition("/")[0].partition("/")[0] for file in images}
    return ImageFolder(
        tuple(images),
        dict(sorted(Counter(f"/{file.path}".rsplit("/", 2)[-2] for file in images).items())),
        named_splits(tops),
        tuple(file.path for file in tables if not file.path.lower().endswith(".txt")),
        _sizes(images),
    )


def _sizes(images: Sequence[FileStat]) -> tuple[tuple[int, int], ...]:
    """Height and width of some images from all over the list; of those that cannot be read, none."""
    sizes = []
    for file in images[:: -(-len(images) // _LOOKED)]:
        with suppress(OSError, BadImage), storage.open_input(file.path) as opened:
            header = read_header(opened.read(_HEAD))
            sizes.append((header.height, header.width))
    return tuple(sizes)


def residual_stem(side: int) -> int:
    """By what the model of images first divides the sides of images, whose shorter one has so many pixels."""
    return 1 if side < 48 else 2 if side < 96 else 4


def usual_side(sizes: Sequence[tuple[int, int]]) -> int:
    """The shorter side of most images, given the height and width of some: their median."""
    return sorted(map(min, sizes))[len(sizes) // 2]


def image_side(sizes: Sequence[tuple[int, int]]) -> int:
    """The pixels of a side that fit most images, given the height and width of some."""
    return max(LEAST, min(usual_side(sizes), LARGEST)) if sizes else SIDE


def draft_images(images: ImageFolder, folder: str, places: Places, least: int = 1) -> list[Part]:
    """The sections of the job file; folders of fewer images than the least are no classes."""
    source = [
        Key("kind", "image", tail="beamfeed schema lists the kinds"),
        Key("files", folder, tail=counted(len(images.files), "image")),
    ]
    split, tail, share = split_by_hash(len(images.files), _SPLIT, "image", "its path")
    if images.parts:
        split, tail = {"by": "column", "column": "top_folder", **images.parts}, "as the folders say"
    return [
        Key("source", tuple(source), ("What the files hold.",)),
        *_label(images, least),
        Key("split", split, tail=tail),
        output_key(places),
        *_train(images, share, places),
        Remark(
            "Records hold the files as they are. To store all images at one size, give source one of",
            ("store: {format: jpeg, size: 256}          # the shorter side", "store: {format: raw, size: [64, 64]}"),
        ),
    ]


def _label(images: ImageFolder, least: int) -> list[Part]:
    if images.labelled:
        folders = some_of([f"{name} {count:,}" for name, count in images.folders.items()], 10)
        label: dict[str, Any] = {"column": "folder", "classes": "auto"}
        tail = ""
        known = in_order(name for name, count in images.folders.items() if count >= least)
        if 2 <= len(known) < len(images.folders):
            label["classes"] = list(known)
            tail = f"folders with fewer than {least} images are set aside: too few to train and to test on"
        return [Key("label", label, (f"Folders as classes: {folders}.",), tail=tail)]
    path = images.lists[0] if images.lists else "labels.csv"
    text = "There are tables beside the images. " if images.lists else "Folders do not look like classes. "
    return [
        Remark(
            text + "If a list says what is in the images, name its columns; until then the job only preprocesses:",
            (f"source: {{..., list: {{file: {path}, path: COLUMN}}}}", "label: {column: COLUMN, classes: auto}"),
        )
    ]


def _train(images: ImageFolder, share: float, places: Places) -> list[Part]:
    """What learns the folders, where these are classes and images can be read."""
    if not images.trains:
        return []
    rows = len(images.files) * share
    side = image_side(images.sizes)
    text = f"height, width; the shorter side of {len(images.sizes)} images is mostly {usual_side(images.sizes):,}"
    image = (
        Key("size", [side, side], tail=text),
        Key("augment", {"flip": "horizontal", "crop": 0.85}, tail="leave flip out where left is not right"),
    )
    return [
        train_key(
            Key("model", {"name": "residual", "stem": residual_stem(side)}),
            [Key("task", {"name": "classify"}), Key("inputs", (Key("image", image),))],
            choose_batch(rows),
            places.model,
            Schedule(patience=5 if share < 1 else None),
            trains=f"about {round(rows):,} images train",
        )
    ]
