"""Which split an asset belongs to, by a seeded hash of its name or by a value."""

import hashlib
from collections import Counter
from collections.abc import Sequence

from beamfeed.contract.config.split import SPLITS, Split, SplitName


def split_of_value(value: str, split: Split) -> SplitName | None:
    """The split whose list holds the value, or None: not used."""
    return next((name for name in SPLITS if value in getattr(split, name)), None)


def seeded_hash(seed: int, *what: object) -> float:
    """A number in [0, 1) that depends on nothing but its arguments."""
    text = "\x1f".join([str(seed), *map(str, what)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") / 2**64


def assign_splits(names: Sequence[str], split: Split) -> dict[str, SplitName]:
    """Splits assets by a seeded hash of their names.

    An asset's split does not depend on the other assets, so a growing fleet never
    moves an asset from test to train. The one exception: a split that is asked for
    and would stay empty takes the asset nearest to it, as far as there are enough.
    """
    place = {name: seeded_hash(split.seed, "split", name) for name in names}
    train, evaluate = float(split.train), float(split.train) + float(split.eval)  # type: ignore[arg-type]
    # Fractions add up to 1 but for rounding; an empty test split must get nothing of it.
    if not split.test:
        evaluate = 1.0
        train = train if split.eval else 1.0
    found: dict[str, SplitName] = {
        name: "train" if at < train else "eval" if at < evaluate else "test" for name, at in place.items()
    }
    wanted: list[SplitName] = [name for name in SPLITS if getattr(split, name)]
    centre = {"train": train / 2, "eval": (train + evaluate) / 2, "test": (evaluate + 1) / 2}
    for empty in [name for name in wanted if name not in found.values()]:
        sizes = Counter(found.values())
        spare = [n for n in names if sizes[found[n]] > 1]
        if spare:
            found[min(spare, key=lambda n: (abs(place[n] - centre[empty]), n))] = empty
    return found
