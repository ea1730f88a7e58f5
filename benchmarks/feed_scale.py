"""What each of many workers reads of 18 TB in an epoch of training: the figures of docs/scale.md.

    python benchmarks/feed_scale.py

Nothing is read and TensorFlow is not loaded: the blocks are those of a fleet of 100,000 assets, dealt out in the order
and to the lanes that `beamfeed.trainer.feed.order` gives them. A test compares the two.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from beamfeed.trainer.feed.sharding import Distribution, Share, lanes_of
from beamfeed.transforms.records.blocks import BLOCKS_PER_SHARD

SHARDS, SHARD_BYTES = 135_920, 132_430_000  # of 18 TB, see docs/scale.md
WINDOW_STORED = 16 * 8 * 4  # bytes that a window adds to the rows before it: 16 rows of 8 float32
ROUND_BYTES = 32 << 20  # of rows in a round with 16 lanes, where train.feed.shuffle is 10,000
CHUNK_BYTES = 1 << 20  # that TensorFlow requests of gs:// at a time
BATCH = 8192
"""Windows in a global batch: 16 for each of 64 x 8 GPUs."""


@dataclass(frozen=True)
class Blocks:
    """The blocks of a split in the order of an epoch, int64 `[blocks]` each."""

    windows: np.ndarray
    bytes: np.ndarray
    requests: np.ndarray


@dataclass(frozen=True)
class Reads:
    """What each worker reads in an epoch, int64 `[workers]` each."""

    bytes: np.ndarray
    requests: np.ndarray


def reads(blocks: Blocks, batch: int, workers: int, lanes: int, round_steps: int) -> Reads:
    """What each worker reads: whole blocks, anew in each round.

    A lane's part of a round is a run of the line of windows; a worker reads the runs of all lanes that its rows are in.
    """
    lanes = min(lanes, batch)
    first = np.concatenate([[0], np.cumsum(blocks.windows)])
    totals = {"bytes": blocks.bytes, "requests": blocks.requests}
    before = {name: np.concatenate([[0], np.cumsum(column)]) for name, column in totals.items()}
    steps = int(first[-1]) // batch
    begins = np.arange(0, steps, round_steps)
    ends = np.minimum(begins + round_steps, steps)
    of_lane: dict[str, list[int]] = {name: [] for name in totals}
    edges = [lane * batch // lanes for lane in range(lanes + 1)]
    for top, end in itertools.pairwise(edges):
        low = np.searchsorted(first, steps * top + begins * (end - top), side="right") - 1
        high = np.searchsorted(first, steps * top + ends * (end - top) - 1, side="right")
        for name in totals:
            of_lane[name].append(int((before[name][high] - before[name][low]).sum()))
    sums: dict[str, list[int]] = {name: [] for name in totals}
    for worker in range(workers):
        share = Share(batch, Distribution(worker, workers))
        lanes_of_worker = [lane for lane in range(lanes) if edges[lane] < share.end and edges[lane + 1] > share.first]
        for name in totals:
            sums[name].append(sum(of_lane[name][lane] for lane in lanes_of_worker))
    return Reads(np.array(sums["bytes"]), np.array(sums["requests"]))


def blocks_on_paper(seed: int = 0) -> Blocks:
    """Those of 18 TB, in a random order: shards of so many blocks each, whose sizes differ by a tenth."""
    random = np.random.default_rng(seed)
    sizes = random.normal(1, 0.1, (SHARDS, BLOCKS_PER_SHARD)).clip(0.5, 1.5)
    sizes = (sizes / sizes.sum(axis=1, keepdims=True) * SHARD_BYTES).astype(np.int64)
    offsets = np.cumsum(sizes, axis=1) - sizes
    requests = (offsets + sizes - 1) // CHUNK_BYTES - offsets // CHUNK_BYTES + 1
    order = random.permutation(sizes.size)
    size = sizes.ravel()[order]
    return Blocks(size // WINDOW_STORED, size, requests.ravel()[order])


def main() -> None:
    """Prints the table."""
    blocks = blocks_on_paper()
    total = int(blocks.bytes.sum())
    print(f"{total / 1e12:.1f} TB in {len(blocks.bytes):,} blocks, batches of {BATCH:,} windows")
    print("| workers | lanes | GB a worker, mean | most | read in all | requests a worker | MB of a round a worker |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for workers, lanes_given in [(1, None), (8, None), (16, None), (64, 16), (64, None)]:
        lanes = lanes_of(lanes_given, workers)
        round_bytes = ROUND_BYTES * max(1, lanes // 16)
        worker_reads = reads(blocks, BATCH, workers, lanes, round_bytes // WINDOW_STORED // BATCH or 1)
        print(
            f"| {workers} | {lanes} | {worker_reads.bytes.mean() / 1e9:,.0f} | {worker_reads.bytes.max() / 1e9:,.0f} | "
            f"{worker_reads.bytes.sum() / total:.2f}x | {worker_reads.requests.mean():,.0f} | "
            f"{max(round_bytes / workers, round_bytes / lanes) / 2**20:.0f} |"
        )


if __name__ == "__main__":
    main()
