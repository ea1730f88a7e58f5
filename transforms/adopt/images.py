"""How large the images of the first records are, so that a job file gives a model a size that fits them."""

from collections.abc import Sequence
from contextlib import suppress

from beamfeed.transforms.adopt.examples import strings_of
from beamfeed.transforms.adopt.first import first_records
from beamfeed.transforms.sources.image.header import BadImage, read_header

LOOKED = 16  # images


def image_sizes(paths: Sequence[str], feature: str) -> list[tuple[int, int]]:
    """Height and width of some images; none where none can be read.

    Args:
      paths: of the shards.
      feature: that holds the images, as the records name it.
    """
    found = []
    for records in first_records(paths):
        try:
            images = strings_of(records[:LOOKED], feature)
        except ValueError:
            continue
        for data in images:
            with suppress(BadImage):
                header = read_header(data)
                found.append((header.height, header.width))
        if found:
            break
    return found
