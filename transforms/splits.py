"""Which split an asset belongs to, by a seeded hash of its name or by a value; where the rows of one are cut."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.config.split import SPLITS, Split, SplitName, counts_rows
from beamfeed.contract.errors import UserError, near_miss

NONE = -1  # the place of a row that is in no split
SEEDS = 1000  # that are tried to find one that leaves no split empty


def split_of_value(value: str, split: Split) -> SplitName | None:
    """The split whose list holds the value, or None: not used."""
    return next((name for name in SPLITS if value in getattr(split, name)), None)


def check_values(values: Iterable[str], split: Split) -> None:
    """Refuses lists of `split` with a value that no row has.

    Raises:
      UserError
    """
    known = sorted(set(values))
    for name in SPLITS:
        for value in getattr(split, name):
            if value not in known:
                hint = near_miss(value, known)
                listed = ", ".join(known[:10]) + (" ..." if len(known) > 10 else "")
                raise UserError(f"split.{name}: {value!r} is not a value of {split.column}{hint} (it has: {listed})")


def seeded_hash(seed: int, *parts: object) -> float:
    """A number in [0, 1) that depends on nothing but its arguments."""
    text = "\x1f".join([str(seed), *map(str, parts)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") / 2**64


def split_of_asset(name: str, split: Split, seed: int | None = None) -> SplitName:
    """The split of an asset, by a seeded hash of its name.

    It depends on nothing else, so that a fleet that grows never moves an asset from test to train.

    Args:
      name: of the asset.
      split: with fractions.
      seed: in place of the split's own.
    """
    place = seeded_hash(split.seed if seed is None else seed, "split", name)
    train, evaluate = float(split.train), float(split.train) + float(split.eval)  # type: ignore[arg-type]
    # Fractions add up to 1 but for rounding; an empty test split must get nothing of it.
    if not split.test:
        evaluate = 1.0
        train = train if split.eval else 1.0
    return "train" if place < train else "eval" if place < evaluate else "test"


def splits_of_places(places: np.ndarray, split: Split) -> np.ndarray:
    """int8 [n]: of rows that were dealt out evenly over [0, 1), the place of each one's split among SPLITS."""
    train, evaluate = float(split.train), float(split.train) + float(split.eval)  # type: ignore[arg-type]
    if not split.test:  # fractions add up to 1 but for rounding; an empty split must get nothing of it
        evaluate = 2.0
        train = train if split.eval else 2.0
    return ((places >= train).astype(np.int8) + (places >= evaluate)).astype(np.int8)


def splits_of_values(values: pa.StringArray, split: Split) -> np.ndarray:
    """int8 [n]: the place among SPLITS of the split whose list holds each value, or NONE."""
    places = np.full(len(values), NONE, np.int8)
    for place, name in enumerate(SPLITS):
        listed = pa.array(getattr(split, name), pa.string())
        places[pc.is_in(values, value_set=listed).to_numpy(zero_copy_only=False)] = place
    return places


def wanted_splits(split: Split) -> list[SplitName]:
    """The splits that are to hold something."""
    return [name for name in SPLITS if getattr(split, name)]


def first_names(names: Iterable[str], split: Split, count: int) -> list[str]:
    """Some assets for a smoke test: the first ones by name, but of each split one, as far as there are enough.

    Where there are fewer than splits, train comes first, then eval.
    """
    ordered = sorted(set(names))
    chosen = ordered[:count]
    if split.by != "asset":
        return chosen
    filled = [part for part in wanted_splits(split) if any(split_of_asset(name, split) == part for name in ordered)]
    first = filled[:count]
    for needed in first:
        sizes = Counter(split_of_asset(name, split) for name in chosen)
        replacement = next((name for name in ordered[count:] if split_of_asset(name, split) == needed), None)
        spare = [name for name in chosen if (of := split_of_asset(name, split)) not in first or sizes[of] > 1]
        if not sizes[needed] and replacement is not None and spare:
            chosen[chosen.index(spare[-1])] = replacement
    return sorted(chosen)


def check_filled(sizes: Mapping[SplitName, int], names: Sequence[str], split: Split) -> None:
    """Refuses a split that is asked for and gets no asset.

    Args:
      sizes: how many assets each split gets.
      names: of the assets, or of some of them.
      split: of the job, by asset.

    Raises:
      UserError: with a seed that gives each split some.
    """
    empty = [name for name in wanted_splits(split) if not sizes.get(name)]
    if not empty:
        return
    count = sum(sizes.values())
    problem = f"split.{empty[0]}: {getattr(split, empty[0]):g} of {count} assets came to none with seed {split.seed}"
    seed = find_seed(names, split) if count <= len(names) else None
    if seed is not None:
        dealt = Counter(split_of_asset(name, split, seed) for name in names)
        counts = ", ".join(f"{dealt[name]} {name}" for name in wanted_splits(split))
        raise UserError(f"{problem}; split.seed={seed} gives {counts}")
    raise UserError(f"{problem}; give 0 for it, or split by time, so that each asset is in all splits")


def find_seed(names: Sequence[str], split: Split) -> int | None:
    """The seed that deals assets out closest to the fractions, with some in each split; None if there is none."""
    splits = wanted_splits(split)
    if len(names) < len(splits):
        return None
    best: tuple[float, int] | None = None
    for seed in range(SEEDS):
        dealt = Counter(split_of_asset(name, split, seed) for name in names)
        off = sum(abs(dealt[name] - max(1.0, getattr(split, name) * len(names))) for name in splits)
        if all(dealt[name] for name in splits) and (best is None or off < best[0]):
            best = off, seed
            if off < 1:
                break
    return None if best is None else best[1]


def cut_span(span: int, split: Split) -> tuple[int, int]:
    """Where eval and test begin in something so long, by fractions; what is to get nothing begins at the end."""
    train, evaluate = (Fraction(str(part)) for part in (split.train, split.eval))
    to_eval = round(span * min(train, Fraction(1))) if split.eval or split.test else span
    return to_eval, round(span * min(train + evaluate, Fraction(1))) if split.test else span


def cut_rows(rows: int, split: Split) -> tuple[int, int, int]:
    """With by: rows, where eval and test begin and where test ends, as numbers of rows of an asset that has `rows`."""
    if not counts_rows(split.train):
        return *cut_span(rows, split), rows
    to_eval = min(rows, int(split.train))  # type: ignore[arg-type]
    to_test = rows if split.eval == "rest" else min(rows, to_eval + int(split.eval))  # type: ignore[arg-type]
    return to_eval, to_test, rows if split.test == "rest" else min(rows, to_test + int(split.test))  # type: ignore[arg-type]
