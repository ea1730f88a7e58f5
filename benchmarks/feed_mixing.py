"""How well an order of windows is mixed, against a full shuffle and against none.

    python benchmarks/feed_mixing.py --assets 200 --rows 31250 --batch 256 --shuffle 10000

Each figure is of one epoch, and its value in a full shuffle is known:

    neighbours   how often two windows that follow each other are of one asset, as a multiple of chance: 1
    order        Spearman's correlation of a window's place in the epoch and its time, within each asset (mean of
                 absolute values): about 0
    spread       variance of an asset's windows in a batch, as a multiple of that of random draws: 1
    carry-over   correlation of the assets' shares of a batch and of the next one: about 0
"""

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import feed_data
import numpy as np
from turns import write_json

from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.text import table


@dataclass(frozen=True)
class Mixing:
    neighbours: float
    order: float
    spread: float
    carry_over: float


def measure(asset: np.ndarray, time: np.ndarray, batch: int) -> Mixing:
    """The mixing of an order.

    Args:
      asset: int `[windows]`, each window's asset, in the order they are read.
      time: `[windows]`, its place within the asset.
      batch: windows in a batch.
    """
    names, index, total = np.unique(asset, return_inverse=True, return_counts=True)
    count = len(asset)
    chance = (total * (total - 1)).sum() / (count * (count - 1))
    same = np.mean(index[1:] == index[:-1])

    order = [_rank_correlation(time[index == i]) for i in range(len(names)) if total[i] > 2]

    batches = count // batch
    cells = np.arange(batches).repeat(batch) * len(names) + index[: batches * batch]
    counts = np.bincount(cells, minlength=batches * len(names)).reshape(batches, len(names)).astype(float)
    share = total / count
    away = counts - batch * share
    # Drawn without replacement: the variance of the hypergeometric distribution.
    random = batch * (share * (1 - share)).sum() * (count - batch) / (count - 1)
    spread = (away**2).sum(axis=1).mean() / random
    carry = (away[:-1] * away[1:]).sum() / max((away[:-1] ** 2).sum(), 1e-12)
    return Mixing(float(same / chance), float(np.mean(np.abs(order))), float(spread), float(carry))


def _rank_correlation(values: np.ndarray) -> float:
    """Spearman's, of distinct values and their places."""
    ranks = values.argsort().argsort()
    return float(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1])


def stream(manifest: Manifest, output: str, batch: int, shuffle: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Asset and time of each window of an epoch, in the order that the trainer reads them."""
    from beamfeed.trainer.feed.dataset import load_dataset
    from beamfeed.trainer.feed.options import FeedOptions

    options = FeedOptions(manifest=manifest)
    batches = load_dataset(output, feed_data.SPLIT, batch_size=batch, shuffle=shuffle, options=options)
    firsts = [batch["values"][:, 0, :2].numpy() for batch in batches]
    first_rows = np.concatenate(firsts).astype(int)
    return first_rows[:, feed_data.ASSET], first_rows[:, feed_data.TIME]


def compare(manifest: Manifest, output: str, batch: int, shuffle: int) -> dict[str, Mixing]:
    """The mixing of a full shuffle, of ours, and of no shuffle."""
    mixings = {}
    unshuffled = stream(manifest, output, batch)
    full = np.random.default_rng(0).permutation(len(unshuffled[0]))
    mixings["full shuffle"] = measure(*(column[full] for column in unshuffled), batch)
    for windows in (8 * shuffle, shuffle, max(1, shuffle // 8)):
        mixings[f"shuffle {windows:,}"] = measure(*stream(manifest, output, batch, windows), batch)
    mixings["no shuffle"] = measure(*unshuffled, batch)
    return mixings


def describe(mixings: dict[str, Mixing]) -> Iterator[str]:
    head = ("order", "neighbours", "order in time", "spread", "carry-over")
    yield from table(
        [head, *((name, *(f"{value:.3f}" for value in asdict(mixing).values())) for name, mixing in mixings.items())]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--assets", type=int, default=200)
    parser.add_argument("--rows", type=int, default=31_250, help="rows of each asset")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--shuffle", type=int, default=10_000, help="windows mixed at a time")
    parser.add_argument("--json", help="file to write to")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="beamfeed-mixing-") as folder:
        manifest = feed_data.write_segments(folder, feed_data.Sizes(args.assets, args.rows))
        mixings = compare(manifest, folder, args.batch, args.shuffle)
    print("\n".join(describe(mixings)))
    write_json({name: asdict(mixing) for name, mixing in mixings.items()}, args.json)


if __name__ == "__main__":
    main()
