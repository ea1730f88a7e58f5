"""The job by which new files are read for a model that is there: the same, but for labels and splits."""

from collections.abc import Sequence

from beamfeed.contract.config.columns import match_features
from beamfeed.contract.config.features import Feature
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.section import Section
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.raw_values import RawValues

GLOB = frozenset("*?[")


def job_of_files(job: Job, files: Sequence[str], manifest: Manifest, raw: RawValues | None) -> Job:
    """The job on new files: its labels are not needed, all rows are in one split, and columns are those of the dataset.

    Args:
      job: that the model was trained with.
      files: patterns, in the place of source.files.
      manifest: of the dataset.
      raw: what the dataset says of the columns of its files; None if it does not.
    """
    source: dict[str, object] = {"files": files[0] if len(files) == 1 else list(files), "max_assets": None}
    fields = type(job.source).model_fields
    # A glob would take the columns of labels, too, as features.
    instead: dict[str, object] = {"features": manifest.features, "outputs": {}, "weights": {}, "key": None}
    source |= {name: value for name, value in instead.items() if name in fields}
    if "time" in fields and not fields["time"].is_required():  # of tables, which are split by it alone
        source["time"] = None
    everything = {"train": 0.0, "eval": 0.0, "test": 1.0}
    nothing = dict.fromkeys(("column", "eval_from", "test_from", "train_from", "gap"))
    split = {**everything, **nothing, "by": job.source.split_by[0], "stratify": False}
    labels = [label.column for label in job.label]  # which new files need not have
    partitions = [column for column in job.output.partition_by if column not in labels]
    return job.model_copy(
        update={
            "output": job.output.model_copy(update={"partition_by": partitions}),
            "source": job.source.model_copy(update=source),
            "split": job.split.model_copy(update=split),
            "label": [],
            "features": job.features if raw is None else _without_globs(job.features, raw),
            "train": None,
        }
    )


def _without_globs(sections: dict[str, Section], raw: RawValues) -> dict[str, Section]:
    """The features, with a key for each column that a glob has in the dataset."""
    features: dict[str, Section] = {}
    for name, section in sections.items():
        if GLOB.isdisjoint(name) or name in raw.columns or not isinstance(section, Feature):
            features[name] = section
            continue
        matched = match_features([name], list(raw.columns), [column for column in sections if column in raw.columns])
        reads = [column for column in matched if section.reads != "number" or raw.columns[column].reads == "number"]
        features |= dict.fromkeys(reads, section)
    return features
