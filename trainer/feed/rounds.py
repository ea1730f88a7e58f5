"""How many windows are mixed at a time. Pure; no TensorFlow."""

from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer.feed.block_index import Index
from beamfeed.trainer.feed.fields import data_fields, stored_bytes, window_bytes, windows_fitting
from beamfeed.trainer.feed.sharding import LANES

LEAST_BYTES, MOST_BYTES = 32 << 20, 64 << 20  # of rows in a round; some rounds are in memory at a time


def round_windows(manifest: Manifest, split: SplitName, index: Index, shuffle: int, lanes: int) -> int:
    """How many windows are mixed at a time; the same whatever fields are wanted.

    More of them with more lanes: what a lane gives to a round would else be little more than the blocks at its ends,
    which are read again for the next.
    """
    info, fields, size = manifest.splits[split], data_fields(manifest), int(index.bytes.sum())
    stored = stored_bytes(info, fields, size)
    least = max(shuffle * window_bytes(info, fields, manifest.windows.length, size), LEAST_BYTES)
    windows = min(max(shuffle, windows_fitting(info, stored, least)), windows_fitting(info, stored, MOST_BYTES))
    return windows * max(1, lanes // LANES) if shuffle else windows
