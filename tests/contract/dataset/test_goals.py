"""What is wrong with a task is told before TensorFlow is loaded, in one line that names the key."""

import subprocess
import sys

import pytest
from labelled import CLASSES, FIELDS
from manifests import manifest_of
from pydantic import TypeAdapter

from beamfeed.contract.config.task import Task
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.goals import check_task, class_weights
from beamfeed.contract.dataset.manifest import SplitInfo, Target
from beamfeed.contract.errors import UserError


def manifest_with(fields, length=8, counts=(60, 30, 10)):
    targets = {"fault": Target(counts=list(counts))}
    split = SplitInfo(assets=1, windows=100, records=1, bytes=1, targets=targets, shards=[])
    return manifest_of(fields, {"train": split}, length)


def task_of(**section):
    return TypeAdapter(Task).validate_python(section)


WIDE = Field(name="wide", dtype="float32", shape=(2,), role="target", per="window")
EACH = Field(name="each", dtype="float32", role="target", per="row")
TEXT = Field(name="text", dtype="bytes", role="input", per="record")


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (
            {"name": "classify", "target": "falt"},
            "train.task.target: the dataset has no field 'falt'; did you mean 'fault'? "
            "(the dataset's targets: fault, hot, life, wide, each)",
        ),
        (
            {"name": "classify", "target": "life"},
            "train.task.target: 'life' holds numbers, not classes; use {name: regress}, or give its label 'classes'",
        ),
        (
            {"name": "regress", "target": "fault"},
            "train.task.target: 'fault' holds classes (ok, worn, broken); use {name: classify}",
        ),
        (
            {"name": "regress", "target": "values"},
            "train.task.target: the field 'values' has role input, not target "
            "(the dataset's targets: fault, hot, life, wide, each)",
        ),
        (
            {"name": "classify", "target": "wide"},
            "train.task.target: the field 'wide' has more than one value for each window",
        ),
        (
            {"name": "regress", "target": "each"},
            "train.task.target: the field 'each' has more than one value for each window",
        ),
        (
            {"name": "regress", "target": "life", "sample_weight": "life"},
            "train.task.sample_weight: the field 'life' has role target, not weight "
            "(the dataset's weights: importance)",
        ),
        (
            {"name": "reconstruct", "sample_weight": "importanc"},
            "train.task.sample_weight: the dataset has no field 'importanc'; did you mean 'importance'? "
            "(the dataset's weights: importance)",
        ),
        (
            {"outputs": {"a": {"name": "reconstruct"}, "b": {"name": "regress", "target": "lif"}}},
            "train.task.outputs.b.target: the dataset has no field 'lif'; did you mean 'life'? "
            "(the dataset's targets: fault, hot, life, wide, each)",
        ),
        (
            {"name": "classify", "target": "fault", "class_weights": {"ok": 1, "worm": 2}},
            "train.task.class_weights: 'fault' has no class 'worm'; did you mean 'worn'? (it has: ok, worn, broken)",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_line(task, message):
    with pytest.raises(UserError) as caught:
        check_task(task_of(**task), manifest_with([*FIELDS, WIDE, EACH]))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "task",
    [
        {"name": "reconstruct"},
        {"name": "classify", "target": "fault", "class_weights": "balanced", "sample_weight": "importance"},
        {"name": "regress", "target": "life"},
        {"name": "regress", "target": "wide"},
        {"outputs": {"a": {"name": "classify", "target": "hot"}, "b": {"name": "reconstruct"}}},
    ],
)
def test_what_fits_is_let_pass(task):
    check_task(task_of(**task), manifest_with([*FIELDS, WIDE]))


def test_a_value_for_each_row_will_do_where_a_window_is_a_row():
    check_task(task_of(name="regress", target="each"), manifest_with([*FIELDS, EACH], length=1))


def test_reconstruct_needs_one_input_of_numbers():
    with pytest.raises(UserError, match=r"train.task: reconstruct needs one input .* text \(bytes \[\]\)"):
        check_task(task_of(name="reconstruct"), manifest_with([*FIELDS, TEXT]))


def test_a_dataset_without_labels_says_so():
    with pytest.raises(UserError, match=r"no field 'label' \(the dataset has no target; give the job a label\)"):
        check_task(task_of(name="classify"), manifest_with(FIELDS[:2]))


@pytest.mark.parametrize(
    ("asked", "counts", "found"),
    [
        (None, (60, 30, 10), None),
        ("balanced", (60, 30, 10), [100 / 180, 100 / 90, 100 / 30]),
        ("balanced", (60, 40, 0), [100 / 180, 100 / 120, 0]),
        ({"worn": 5, "ok": 0}, (60, 30, 10), [0, 5, 1]),
    ],
)
def test_class_weights(asked, counts, found):
    task = task_of(name="classify", target="fault", class_weights=asked)
    weights = class_weights(task, "train.task", manifest_with(FIELDS, counts=counts))
    assert weights == (found and pytest.approx(found))
    if asked == "balanced" and all(counts):
        shares = [weight * count for weight, count in zip(weights, counts, strict=True)]
        assert shares == pytest.approx([100 / len(CLASSES)] * len(CLASSES))


def test_balanced_needs_counts():
    task = task_of(name="classify", target="fault", class_weights="balanced")
    with pytest.raises(UserError, match="does not count the windows of each class"):
        class_weights(task, "train.task", manifest_with(FIELDS, counts=()))


def test_it_loads_no_tensorflow():
    code = "import beamfeed.contract.dataset.goals, sys; assert not {'tensorflow', 'keras', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
