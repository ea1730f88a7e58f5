"""Whether a dataset has what a task asks for. Pure; no TensorFlow, so that a mistake is told at once.

goal            a section of the job (`train.task`, or one of its outputs)
check_goal      what each kind of goal asks of the dataset's fields
"""

from collections.abc import Mapping, Sequence
from functools import singledispatch

from beamfeed.contract.config.task import Classify, Forecast, Goal, Reconstruct, Regress, Several, goals_of
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.errors import UserError, near_miss

TASK = "train.task"


def check_task(task: Goal | Several, manifest: Manifest) -> None:
    """Says what a task asks for that the dataset does not have.

    Raises:
      UserError: for the first such thing, with its key.
    """
    if not inputs_of(manifest):
        raise UserError(f"dataset {manifest.name}: has no input, nothing can be learned from it")
    for key, goal in keyed_goals(task).items():
        check_goal(goal, key, manifest)
        if goal.sample_weight is not None:
            find_field(manifest, goal.sample_weight, f"{key}.sample_weight", "weight")


def keyed_goals(task: Goal | Several) -> dict[str, Goal]:
    """The goals by the keys of the job that hold them."""
    several = isinstance(task, Several)
    return {f"{TASK}.outputs.{name}" if several else TASK: goal for name, goal in goals_of(task).items()}


def inputs_of(manifest: Manifest) -> list[Field]:
    """The fields that a model gets."""
    return [field for field in manifest.fields if field.role == "input"]


def find_field(manifest: Manifest, name: str, key: str, role: str, *, axes: int = 0) -> Field:
    """The field that the job names at `key`: one number for each window, or as many axes of them, of this role.

    Raises:
      UserError: if there is none.
    """
    fits = [field.name for field in manifest.fields if field.role == role]
    has = f"the dataset's {role}s: {', '.join(fits)}" if fits else f"the dataset has no {role}; give the job a label"
    match = next((field for field in manifest.fields if field.name == name), None)
    if match is None:
        raise UserError(f"{key}: the dataset has no field {name!r}{near_miss(name, fits)} ({has})")
    if match.role != role:
        raise UserError(f"{key}: the field {name!r} has role {match.role}, not {role} ({has})")
    if match.part is not None:
        raise UserError(f"{key}: the field {name!r} is the rows behind a window; use {{name: forecast}}")
    if len(match.shape) > axes or match.is_ragged or (match.per == "row" and manifest.windows.length > 1):
        raise UserError(f"{key}: the field {name!r} has more than one value for each {manifest.noun}")
    if match.dtype == "bytes":
        raise UserError(f"{key}: the field {name!r} is of text, it must be of numbers or classes")
    return match


@singledispatch
def check_goal(goal: Goal, key: str, manifest: Manifest) -> None:
    """What a goal asks of the dataset.

    Raises:
      UserError: if the dataset does not have it.
    """
    raise NotImplementedError(f"nothing is known of the task {goal.name}")


@check_goal.register
def _reconstruct(goal: Reconstruct, key: str, manifest: Manifest) -> None:
    inputs = inputs_of(manifest)
    if len(inputs) > 1 or inputs[0].dtype != "float32" or inputs[0].is_ragged:
        fields = ", ".join(f"{field.name} ({field.dtype} {list(field.shape)})" for field in inputs)
        raise UserError(f"{key}: reconstruct needs one input of float32, of one shape; the dataset has {fields}")


@check_goal.register
def _classify(goal: Classify, key: str, manifest: Manifest) -> None:
    field = find_field(manifest, goal.target, f"{key}.target", "target")
    if not field.classes:
        raise UserError(
            f"{key}.target: {goal.target!r} holds numbers, not classes; "
            f"use {{name: regress}}, or give its label 'classes'"
        )
    if goal.threshold is not None and len(field.classes) != 2:
        raise UserError(f"{key}.threshold: is of two classes, {goal.target!r} has {len(field.classes)}")
    class_weights(goal, key, manifest)


@check_goal.register
def _regress(goal: Regress, key: str, manifest: Manifest) -> None:
    field = find_field(manifest, goal.target, f"{key}.target", "target", axes=1)
    if field.classes:
        raise UserError(f"{key}.target: {goal.target!r} holds classes ({_few(field.classes)}); use {{name: classify}}")


@check_goal.register
def _forecast(goal: Forecast, key: str, manifest: Manifest) -> None:
    fits = [field.name for field in manifest.fields if field.role == "target" and field.units]
    if goal.target not in fits:
        has = f"it has: {', '.join(fits)}" if fits else "it has none; give the job a label with 'ahead: {rows: 24}'"
        raise UserError(
            f"{key}.target: the dataset has no rows behind windows called {goal.target!r}"
            f"{near_miss(goal.target, fits)} ({has})"
        )


def class_weights(goal: Classify, key: str, manifest: Manifest) -> list[float] | None:
    """How much a window of each class counts, in the order of the classes; None where all count alike.

    balanced: windows / (classes * windows of the class), of the train split. A class without windows has the weight 0.

    Raises:
      UserError: if there is no such class.
    """
    classes = manifest.field(goal.target).classes
    weights = goal.class_weights
    if weights is None:
        return None
    if isinstance(weights, Mapping):
        if unknown := [name for name in weights if name not in classes]:
            raise UserError(
                f"{key}.class_weights: {goal.target!r} has no class {unknown[0]!r}"
                f"{near_miss(unknown[0], classes)} (it has: {_few(classes)})"
            )
        return [float(weights.get(name, 1.0)) for name in classes]
    split = manifest.splits.get("train")
    target = split.targets.get(goal.target) if split else None
    if target is None or len(target.counts) != len(classes):
        raise UserError(
            f"{key}.class_weights: the manifest does not count the {manifest.noun}s of each class; give numbers"
        )
    windows = sum(target.counts)
    return [windows / (len(classes) * count) if count else 0.0 for count in target.counts]


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
