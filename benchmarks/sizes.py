"""How large the benchmarks of a run are."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """Pairs are (assets, rows of each).

    Attributes:
      cases: fleets on which all alternatives run.
      one_asset, many_assets: where growth with rows and with assets starts, for each
        worker: the rows of the one asset, the number of the many. With a unit of
        work (2 million rows here) or some assets for each, all workers are busy from the start.
      files: fleets of so many small files.
      days: a dataset that grows by a day at a time: the numbers of days that are there, and the rows of a day.
      repeats: runs of each point of the growth.
      feed: the fleet that is fed.
      train: the fleet that is trained on.
      predict: the fleet that is predicted, and to how many times its assets it grows.
    """

    cases: tuple[tuple[int, int], ...]
    one_asset: tuple[int, int]
    many_assets: tuple[int, int]
    files: tuple[int, ...]
    days: tuple[tuple[int, ...], int]
    repeats: int
    feed: tuple[int, int]
    train: tuple[int, int]
    predict: tuple[int, int, int]


SIZES = {
    "tiny": Size(
        ((2, 5_000),),
        (1, 5_000),
        (2, 2_000),
        (20, 40, 60),
        ((1, 2), 4_000),
        1,
        (16, 1_000),
        (2, 5_000),
        (8, 1_000, 2),
    ),  # only to try the scripts
    "small": Size(
        ((8, 200_000), (32, 20_000)),
        (1, 2_000_000),
        (4, 125_000),
        (500, 1_000, 2_000, 4_000),
        ((3, 10), 20_000),
        1,
        (64, 10_000),
        (40, 5_000),
        (8, 40_000, 4),
    ),
    "large": Size(
        ((8, 2_000_000), (32, 100_000)),
        (1, 2_000_000),
        (4, 500_000),
        (2_000, 4_000, 8_000, 16_000),
        ((10, 100, 365), 100_000),
        3,
        (200, 31_250),
        (40, 10_000),
        (8, 500_000, 10),
    ),
}
