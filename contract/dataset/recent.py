"""The windows that the last runs added to a dataset that grows, and those before, for `train.on`."""

import hashlib
from collections.abc import Collection

from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.contract.config.train import On, Train
from beamfeed.contract.dataset.layout import SHARD_PREFIX
from beamfeed.contract.dataset.manifest import Manifest, Shard, some_of
from beamfeed.contract.errors import UserError


def training_manifest(train: Train, manifest: Manifest) -> Manifest:
    """The manifest of what a training run reads: some runs (`train.on`), and some partitions (`train.feed.where`).

    Raises:
      UserError: as `recent_shards`, or if the dataset has no such partitions.
    """
    on = train.on
    if on is not None:
        new = recent_shards(manifest, on.runs)["train"]
        shards = manifest.splits["train"].shards
        chosen = new | replayed(shards, new, on.replay)
        manifest = manifest.model_copy(
            update={"splits": {**manifest.splits, "train": some_of(manifest.splits["train"], chosen)}}
        )
    return manifest.select(train.feed.where)


def by_age(on: On, manifest: Manifest) -> dict[str, Manifest]:
    """By words for them, the windows of the last runs and those before, of all splits; none where these are all."""
    new = recent_shards(manifest, on.runs)
    before = {name: set(range(len(info.shards))) - new[name] for name, info in manifest.splits.items()}
    if not any(before.values()):
        return {}
    last = "the last run" if on.runs == 1 else f"the last {on.runs:,} runs"
    return {
        f"{words} {last}": manifest.model_copy(
            update={"splits": {name: some_of(info, chosen[name]) for name, info in manifest.splits.items()}}
        )
        for words, chosen in (("of", new), ("before", before))
    }


def recent_shards(manifest: Manifest, runs: int) -> dict[SplitName, set[int]]:
    """By split, the places of the shards that the last runs wrote; all where there are no more runs.

    Raises:
      UserError: if their windows have come into shards with those of earlier runs.
    """
    if runs >= len(manifest.increments):
        return {name: set(range(len(manifest.splits[name].shards))) for name in SPLITS}
    chosen: dict[SplitName, set[int]] = {name: set() for name in SPLITS}
    for number, run in enumerate(reversed(manifest.increments[-runs:])):
        found = {
            name: {place for place, shard in enumerate(manifest.splits[name].shards) if _is_of(shard, run.data)}
            for name in SPLITS
        }
        windows = sum(manifest.splits[name].shards[place].windows for name in SPLITS for place in found[name])
        if windows != run.windows:
            can = f"the last {number:,} can be told" if number else "not even the last one can be told"
            raise UserError(
                f"train.on.runs: the windows of the last {runs:,} runs are no longer apart from those before, as "
                f"shards were merged or assets prepared again; {can}; train before beamfeed compact, or leave "
                "train.on out"
            )
        chosen = {name: chosen[name] | found[name] for name in SPLITS}
    return chosen


def _is_of(shard: Shard, folder: str) -> bool:
    """Whether a run wrote it into its data folder, and did not copy it there."""
    return shard.file.startswith(f"{folder}/") and shard.file.rpartition("/")[2].startswith(SHARD_PREFIX)


def replayed(shards: list[Shard], new: Collection[int], share: float) -> set[int]:
    """The places of some older shards, by a hash of their names: as few as have this share of all older windows."""
    older = [place for place in range(len(shards)) if place not in new]
    order = sorted(older, key=lambda place: hashlib.sha256(shards[place].file.encode()).digest())
    wanted, chosen, windows = share * sum(shards[place].windows for place in older), set[int](), 0
    for place in order:
        if windows >= wanted:
            break
        chosen.add(place)
        windows += shards[place].windows
    return chosen
