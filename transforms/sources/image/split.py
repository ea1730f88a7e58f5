"""Which split each image is in."""

import numpy as np
import pyarrow as pa

from beamfeed.contract.config.split import Split
from beamfeed.transforms.splits import splits_of_places, splits_of_values
from beamfeed.transforms.statistics.hashes import hash_texts


def split_images(
    names: pa.Array, split: Split, *, column: pa.Array | None = None, key: pa.Array | None = None,
    classes: pa.Array | None = None,
) -> np.ndarray:  # fmt: skip
    """int8 [n]: the place of each image's split among SPLITS, or NONE.

    By a hash it depends on the image's name, or its key, alone: a folder that grows moves none. Stratified, the images
    of a class are put in the order of their hashes, and the order is cut, so that each class has its exact share.

    Args:
      names: string [n], the same wherever the folder of the images is.
      split: of the job.
      column: string [n], with by: column.
      key: string [n], with by: key.
      classes: string [n], of the label, with `stratify`.
    """
    if split.by == "column":
        assert column is not None
        return splits_of_values(column, split)
    hashes = hash_texts(names if key is None else key, split.seed)
    places = hashes.astype(np.float64) / 2.0**64
    if classes is not None:
        places = _ranks(hashes, classes)
    return splits_of_places(places, split)


def _ranks(hashes: np.ndarray, classes: pa.Array) -> np.ndarray:
    """Float64 [n] in (0, 1): where an image stands among those of its class, in the order of their hashes."""
    codes = classes.dictionary_encode(null_encoding="encode").indices.to_numpy()
    places = np.empty(len(codes))
    for code in range(codes.max(initial=-1) + 1):
        rows = np.flatnonzero(codes == code)
        order = rows[np.argsort(hashes[rows], kind="stable")]
        places[order] = (np.arange(len(rows)) + 0.5) / max(1, len(rows))
    return places
