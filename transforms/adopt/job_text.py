"""A first job file for a dataset that was adopted: it trains as it is, where one of our models takes the inputs."""

from collections.abc import Mapping, Sequence

import yaml

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.load import parse_as
from beamfeed.contract.dataset.batches import choose_batch
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.errors import UserError
from beamfeed.transforms.suggest.first_model import FirstModel, first_model


def job_text(
    manifest: Manifest, out: str, workdir: str, name: str, sizes: Mapping[str, Sequence[tuple[int, int]]] | None = None
) -> str:
    """The text of the job file.

    Args:
      manifest: of the dataset.
      out: its folder.
      workdir: of the training run.
      name: of the job file, for its first line.
      sizes: by field of encoded images, height and width of some.

    Raises:
      UserError: if there is no target, or nothing for a model to learn it from.
    """
    inputs = [field for field in manifest.fields if field.role == "input"]
    targets = [field for field in manifest.fields if field.role == "target"]
    if not targets:
        raise UserError("--job: a model needs something to tell; give --target NAME, of one of the features")
    if not inputs:
        raise UserError("--job: no feature is an input of a model; give --input NAME")
    goals = [{"name": "classify" if field.classes else "regress", "target": field.name} for field in targets]
    task = goals[0] if len(goals) == 1 else {"outputs": dict(zip(_outputs(targets), goals, strict=True))}
    chosen = first_model(inputs, sizes or {})
    batch = choose_batch(manifest.splits["train"].windows)
    lines = [
        f"# Trains on the TFRecords of {out}, which were adopted: beamfeed train {name}",
        f"name: {_flow(manifest.name)}",
        f"output: {_flow({'path': out})}  # where the dataset is; nothing is written there",
        "train:",
        f"  # {_remark(chosen, inputs)}",
        f"  model: {_flow(chosen.model)}",
        f"  task: {_flow(task)}",
        *([f"  inputs: {_flow(chosen.inputs)}"] if chosen.inputs else []),
        f"  feed: {_flow({'batch_size': batch})}",
        "  epochs: 10",
        f"  workdir: {_flow(workdir)}",
    ]
    text = "\n".join(lines) + "\n"
    parse_as(TrainingJob, text, name=name)  # what is written must be a job file
    return text


def _outputs(targets: list[Field]) -> list[str]:
    """A name for the output of each target: small letters, digits and _, with a letter first."""
    names = [field.name.lower().lstrip("_0123456789") for field in targets]
    fine = all(names) and len(set(names)) == len(names)
    return names if fine else [f"output_{number}" for number, _ in enumerate(names)]


def _remark(chosen: FirstModel, inputs: list[Field]) -> str:
    """What is said of the model."""
    told = ", ".join(f"{field.name} ({field.content or field.dtype} {_shown(field)})" for field in inputs)
    if chosen.is_own:
        return f"The inputs are {told}: give the class of a model of your own, see docs/own_model.md."
    return f"Of the inputs {told}."


def _shown(field: Field) -> str:
    return "[" + ", ".join("any" if size is None else str(size) for size in field.shape) + "]"


def _flow(value: object) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False).removesuffix("...\n").strip()
