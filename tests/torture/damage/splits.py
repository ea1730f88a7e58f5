"""Damages of splits: lists with typos, values in no list, fractions of 0 and 1, absolute cuts, groups of a path."""

from random import Random

import numpy as np

from ..fleet import Fleet
from .kind import damage


@damage(split="column", alone=True)
def a_typo_in_a_split_list(fleet: Fleet, chance: Random) -> None:
    """A listed value that never occurs ends the job in one line that names it."""
    fleet.job["split"]["eval"] = ["wram"]
    fleet.mistake = "wram"


@damage(split="path", alone=True)
def a_typo_in_a_list_of_folders(fleet: Fleet, chance: Random) -> None:
    """A listed folder that is not there ends the job in one line that names it."""
    fleet.job["split"]["eval"] = ["suoth"]
    fleet.mistake = "suoth"


@damage(split="column")
def values_in_no_list(fleet: Fleet, chance: Random) -> None:
    """Rows whose value no list names are not used, and a window does not cross them."""
    for part in fleet.parts:
        at = chance.randrange(len(part))
        part.extra["phase"][at] = "off duty"


@damage(split="column", format="parquet")
def values_that_are_missing(fleet: Fleet, chance: Random) -> None:
    """Rows without a value are not used."""
    for part in fleet.parts:
        part.extra["phase"][chance.randrange(len(part))] = None


@damage(split="path")
def a_folder_in_no_list(fleet: Fleet, chance: Random) -> None:
    """Assets of a folder that no list names are left out."""
    fleet.job["split"]["test"] = []


@damage(split="path", files=[2, 3])
def an_asset_in_several_folders(fleet: Fleet, chance: Random) -> None:
    """north/ and south/ hold the past and the future of a machine: it is in both splits, and no window crosses."""
    for part in fleet.parts:
        if "/part-0" not in part.path:
            _, _, rest = part.path.partition("/")
            part.path = f"south/{rest}"
        else:
            _, _, rest = part.path.partition("/")
            part.path = f"north/{rest}"
    fleet.job["split"]["test"] = []


@damage(split=["asset", "time"])
def everything_trains(fleet: Fleet, chance: Random) -> None:
    """Fractions of 1 and 0: one split holds all."""
    fleet.job["split"] |= {"train": 1, "eval": 0, "test": 0}


@damage(split="time")
def nothing_to_test_with(fleet: Fleet, chance: Random) -> None:
    """A fraction of 0 at the end."""
    fleet.job["split"] |= {"train": 0.7, "eval": 0.3, "test": 0}


@damage(split="time")
def nothing_to_evaluate_with(fleet: Fleet, chance: Random) -> None:
    """A fraction of 0 in the middle."""
    fleet.job["split"] |= {"train": 0.7, "eval": 0, "test": 0.3}


@damage(split="time", clock=["timestamp_s", "timestamp_us", "date"], rows=[90, 140])
def absolute_cuts(fleet: Fleet, chance: Random) -> None:
    """One date for all assets: nothing of the future trains."""
    times = np.sort(np.concatenate([part.time for part in fleet.parts]))
    cuts = [int(times[int(len(times) * share)]) // 10**9 * 10**9 for share in (0.6, 0.8)]
    stamps = [str(np.datetime64(cut, "ns").astype("datetime64[s]")).replace("T", " ") for cut in cuts]
    fleet.job["split"] = {"by": "time", "eval_from": stamps[0], "test_from": stamps[1]}


@damage(split="time", resample=None, rows=[90, 140])
def by_rows(fleet: Fleet, chance: Random) -> None:
    """The first rows of each asset train, the next evaluate, the rest test."""
    fleet.job["split"] = {"by": "rows", "train": 40, "eval": 15}
