"""The job file that trains on an adopted dataset: with the model that takes its inputs as they are."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.load import parse_as
from beamfeed.contract.dataset.batches import choose_batch
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.inputs import is_encoded, is_raw_image
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.errors import UserError
from beamfeed.transforms.suggest.draft import Key, comment, render
from beamfeed.transforms.suggest.images import LEAST, image_side, residual_stem
from beamfeed.transforms.suggest.shared import train_key
from beamfeed.transforms.suggest.windowing import Schedule

NO_TARGET = "--job: a model needs something to predict; give --target NAME, one of the features"
Sizes = Mapping[str, Sequence[tuple[int, int]]]


_OWN = "my_package.models:MyModel"  # a model that a user writes, where none of Beamfeed's own takes the inputs


def job_text(manifest: Manifest, out: str, workdir: str, name: str, sizes: Sizes | None = None) -> str:
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
        raise UserError(NO_TARGET)
    if not inputs:
        raise UserError("--job: no feature is an input of a model; give --input NAME")
    goals = [{"name": "classify" if field.classes else "regress", "target": field.name} for field in targets]
    task = goals[0] if len(goals) == 1 else {"outputs": dict(zip(_outputs(targets), goals, strict=True))}
    model, decoded = first_model(inputs, sizes or {})
    learns = [Key("task", task), *([Key("inputs", decoded)] if decoded else [])]
    names = ", ".join(f"{field.name} ({field.content or field.dtype} {field.shape_text})" for field in inputs)
    remark = f"Of the inputs {names}."
    if "class" in model:
        remark = f"The inputs are {names}: write your own model class, see docs/own_model.md."
    rows = manifest.splits["train"].windows
    parts = [
        Key("name", manifest.name),
        Key("output", {"path": out}, tail="where the dataset is; nothing is written there"),
        train_key(
            Key("model", model, (remark,)),
            learns,
            choose_batch(rows),
            workdir,
            Schedule(epochs=10),
            trains=f"{rows:,} rows train",
        ),
    ]
    head = comment(f"Trains on the TFRecords of {out}, which were adopted: beamfeed train {shlex.quote(name)}")
    text = "\n".join(head) + "\n" + render(parts)
    parse_as(TrainingJob, text, name=name)  # what is written must be a job file
    return text


def _outputs(targets: list[Field]) -> list[str]:
    """A name for the output of each target: small letters, digits and _, with a letter first."""
    names = [field.name.lower().lstrip("_0123456789") for field in targets]
    fine = all(names) and len(set(names)) == len(names)
    return names if fine else [f"output_{number}" for number, _ in enumerate(names)]


def first_model(inputs: Sequence[Field], sizes: Sizes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The sections `train.model` and `train.inputs` of a model that takes these inputs.

    Args:
      inputs: all that a model gets.
      sizes: height and width of some images of fields that hold them encoded, by the field's name.
    """
    sides = {field.name: image_side(sizes.get(field.name, ())) for field in inputs if is_encoded(field)}
    decoded: dict[str, Any] = {name: {"size": [side, side]} for name, side in sides.items()}
    raw = [field for field in inputs if is_raw_image(field) and _shorter(field) >= LEAST]
    dense = [field for field in inputs if field.name not in sides and field not in raw]
    if (sides or raw) and all(map(_is_dense, dense)):
        least = min([*sides.values(), *map(_shorter, raw)])
        stem = residual_stem(least)
        model: dict[str, Any] = {"name": "residual"} | ({"stem": stem} if stem > 1 else {})
        return model, {field.name: decoded.get(field.name, {}) for field in inputs if field not in dense}
    if not sides and all(map(_is_dense, inputs)):
        return {"name": "tabular"}, {}
    if not sides and all(_is_dense(field) or _are_words(field) for field in inputs):
        return {"name": "text"}, {}
    if all(field.name in sides or _is_number(field) for field in inputs):
        return {"name": "multi_input"}, decoded
    return {"class": _OWN}, decoded


def _shorter(image: Field) -> int:
    """The pixels of the shorter side of raw images."""
    return min(size or 0 for size in image.shape[:2])


def _is_dense(field: Field) -> bool:
    """Whether every model of several inputs takes it: float32 of one shape, or one category."""
    return not field.is_ragged and (field.dtype == "float32" or (_is_category(field) and not field.shape))


def _are_words(field: Field) -> bool:
    """Whether the model of texts takes it: as many words in each row."""
    return _is_category(field) and len(field.shape) == 1 and not field.is_ragged


def _is_category(field: Field) -> bool:
    return field.dtype == "int64" and bool(field.sizes)


def _is_number(field: Field) -> bool:
    """Whether the model of numbers of any dtype takes it: of one shape, and no categories."""
    return not (field.is_ragged or field.sizes or field.dtype == "bytes" or field.dtype.startswith("complex"))
