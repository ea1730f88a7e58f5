"""The windows that the last runs added to a dataset that grows, and those before, for `train.on`."""

import hashlib
from collections.abc import Collection

from beamfeed.contract.config.split import SplitName
from beamfeed.contract.config.train import On, Train
from beamfeed.contract.dataset.layout import SHARD_PREFIX
from beamfeed.contract.dataset.manifest import Increment, Manifest, Shard
from beamfeed.contract.errors import UserError


def training_manifest(train: Train, manifest: Manifest) -> Manifest:
    """The manifest of what a training run reads: some runs (`train.on`), and some partitions (`train.feed.where`).

    Raises:
      UserError: as `recent_shards`, or if the dataset has no such partitions.
    """
    on = train.on
    if on is not None:
        new = recent_shards(manifest, on.runs)["train"]
        manifest = manifest.with_shards({"train": new | replayed(manifest.splits["train"].shards, new, on.replay)})
    return manifest.select(train.feed.where)


def shards_digest(manifest: Manifest) -> str:
    """What names the training windows of some shards: a half-done run goes on with the same ones."""
    shards = [(shard.crc32c, shard.windows) for shard in manifest.splits["train"].shards]
    return hashlib.sha256(repr(shards).encode()).hexdigest()


def by_age(on: On, manifest: Manifest) -> dict[str, Manifest]:
    """By words for them, the windows of the last runs and those before, of all splits; none where these are all.

    Args:
      on: of the training run.
      manifest: as `training_manifest` gave it.
    """
    new = {name: _of_last(manifest, name, on.runs) for name in manifest.splits}
    before = {name: set(range(len(info.shards))) - new[name] for name, info in manifest.splits.items()}
    if not any(before.values()):
        return {}
    last = "the last run" if on.runs == 1 else f"the last {on.runs:,} runs"
    return {f"of {last}": manifest.with_shards(new), f"before {last}": manifest.with_shards(before)}


def recent_shards(manifest: Manifest, runs: int) -> dict[SplitName, set[int]]:
    """By split, the places of the shards that the last runs wrote; all where there are no more runs.

    Raises:
      UserError: if some of their windows are no longer in shards of their own.
    """
    last_runs = manifest.increments[-runs:] if runs < len(manifest.increments) else []
    for number, run in enumerate(reversed(last_runs), 1):
        if not is_apart(manifest, run):
            can = f"at most {number - 1:,} can be given" if number > 1 else "not even those of the last run are"
            raise UserError(
                f"train.on.runs: is {runs:,}, but not all windows of these runs are in shards of their own any more, "
                f"as beamfeed compact merged or removed some, or assets were prepared again; {can}; train before "
                "compacting"
            )
    return {name: _of_last(manifest, name, runs) for name in manifest.splits}


def is_apart(manifest: Manifest, run: Increment) -> bool:
    """Whether all windows that a run added are still in shards of its own."""
    shards = (shard for info in manifest.splits.values() for shard in info.shards)
    return sum(shard.windows for shard in shards if _is_of(shard, run.data)) == run.windows


def _of_last(manifest: Manifest, split: SplitName, runs: int) -> set[int]:
    shards = manifest.splits[split].shards
    if runs >= len(manifest.increments):
        return set(range(len(shards)))
    folders = [increment.data for increment in manifest.increments[-runs:]]
    return {place for place, shard in enumerate(shards) if any(_is_of(shard, folder) for folder in folders)}


def _is_of(shard: Shard, folder: str) -> bool:
    """Whether a run wrote it into its data folder, and did not copy it there."""
    return shard.file.startswith(f"{folder}/") and shard.file.rpartition("/")[2].startswith(SHARD_PREFIX)


def replayed(shards: list[Shard], new: Collection[int], share: float) -> set[int]:
    """The places of some older shards, by a hash of their names: as few as have this share of all older windows."""
    older = [place for place in range(len(shards)) if place not in new]
    order = sorted(older, key=lambda place: hashlib.sha256(shards[place].file.encode()).digest())
    least_windows = share * sum(shards[place].windows for place in older)
    chosen, windows = set[int](), 0
    for place in order:
        if windows >= least_windows:
            break
        chosen.add(place)
        windows += shards[place].windows
    return chosen
