"""What is trained of each group of a dataset, and where to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from beamfeed.contract import storage
from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.load import job_text
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.fingerprint import model_fingerprint
from beamfeed.contract.dataset.layout import EachLayout
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.text import counted
from beamfeed.transforms.groups.folder import group_fingerprint
from beamfeed.transforms.groups.places import Group, partitions


@dataclass(frozen=True)
class TrainEach:
    """What is trained, and where to.

    Attributes:
      job: of the models.
      manifest: of the dataset, with the partitions that the job reads.
      by: the key field or partition that names groups.
      out: the folder that is written.
      models: whether SavedModels are kept.
      content: what decides on what is written.
    """

    job: TrainingJob
    manifest: Manifest
    by: str
    out: str
    models: bool
    content: dict[str, Any]

    @property
    def layout(self) -> EachLayout:
        """The names in the folder."""
        return EachLayout(self.out)

    @property
    def partitions(self) -> list[Group] | None:
        """The groups, where they are partitions."""
        return partitions(self.manifest, self.by)

    def shards(self) -> list[tuple[SplitName, int]]:
        """All shards that hold something, by split and number."""
        return [
            (split, number)
            for split, info in self.manifest.splits.items()
            for number, shard in enumerate(info.shards)
            if shard.windows
        ]

    def shard_paths(self) -> dict[str, list[str]]:
        """By split, the shards as they are read: those of the dataset, or unpacked copies."""
        if self.manifest.compression == "none":
            return {split: self.manifest.shard_paths(self.job.output.path, split) for split in self.manifest.splits}
        folder = self.layout.unpacked
        return {
            split: [storage.join(folder, f"{split}-{number:05d}.tfrecord") for number in range(len(info.shards))]
            for split, info in self.manifest.splits.items()
        }

    def fingerprint(self, name: str) -> str:
        """The identity of a group's model."""
        return model_fingerprint(self.job.train, group_fingerprint(self.manifest.fingerprint, self.by, name))

    def job_of(self, dataset: str, workdir: str, where: Mapping[str, list[str]]) -> str:
        """The text of the job of a group, whose records lie in `dataset`, or in these partitions of it."""
        values = self.job.model_dump(mode="json", by_alias=True, exclude_unset=True)
        values["output"]["path"] = dataset
        train = values["train"]
        train |= {"workdir": workdir, "writers": [], "floor": False}
        train["feed"] = {**train.get("feed", {}), "where": dict(where)}
        return job_text(values)


def small(each: TrainEach, group: Group) -> str:
    """Why a group has too little to train on; empty where it has enough."""
    windows, batch, noun = group.windows.get("train", 0), each.job.train.feed.batch_size, each.manifest.noun
    if not windows:
        return f"no {noun} in the split train"
    if windows < batch:
        return f"{counted(windows, noun)} in the split train, fewer than one batch of {batch} (train.feed.batch_size)"
    return ""
