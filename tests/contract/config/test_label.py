"""The section `label`, and what goes with it."""

import pytest
from job_text import complaint

from beamfeed.contract.config.label import MOST_CLASSES
from beamfeed.contract.config.load import parse_job
from beamfeed.contract.config.section import class_name
from beamfeed.contract.errors import UserError

JOB = """\
name: x
source: {kind: timeseries, files: f, time: {column: t}, features: [a]}
windows: {length: 3}
output: {path: o}
"""
TRAIN = "train={model: {name: recurrent}, workdir: w%s}"


def test_one_label_or_several():
    assert parse_job(JOB).label == []
    (label,) = parse_job(JOB, ["label={column: y}"]).label
    assert (label.name, label.at, label.reach, label.role) == ("label", "end", 0, "target")
    labels = parse_job(JOB, ["label=[{column: y}, {name: z, derive: remaining_life, cap: 125}]"]).label
    assert [label.name for label in labels] == ["label", "z"]
    assert parse_job(JOB, ["label={column: y, at: horizon, horizon: 5}"]).label[0].reach == 5
    job = parse_job(JOB, ["label={ahead: {rows: 24, columns: [a]}}"])
    assert (job.label[0].reach, job.rows_ahead, job.frame.length, job.windows.length) == (24, 24, 27, 3)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("{}", "give either 'column: <name>', 'derive: remaining_life' or 'ahead: {rows: <rows>}'"),
        ("{column: y, derive: remaining_life}", "give either 'column: <name>', 'derive: remaining_life' or 'ahead"),
        ("{ahead: {rows: 0}}", "label.ahead.rows: 0 is not allowed, it must be a whole number from 1 to 10,000"),
        ("{ahead: {rows: 3, column: a}}", "label.ahead.column: unknown key; did you mean 'columns'?"),
        ("{column: y, ahead: {rows: 3}}", "ahead goes with name alone, not with column"),
        ("{column: y, at: horizon}", "at: horizon needs 'horizon: <rows>'"),
        ("{column: y, horizon: 3}", "'horizon' goes with at: horizon, not with at: end"),
        ("{derive: remaining_life, at: any}", "derive: remaining_life goes with at: end, not with at: any"),
        ("{derive: remaining_life, classes: auto}", "classes do not go with derive: that is of numbers"),
        ("{column: y, classes: auto, cap: 3}", "classes do not go with cap: that is of numbers"),
        ("{column: y, classes: auto, role: weight}", "classes do not go with role: weight: that is of numbers"),
        ("{column: y, classes: [a]}", "['a'] must name at least two classes"),
        ("{column: y, classes: [1, '1']}", "the class '1' is given twice"),
        ("{column: y, classes: [true, 'true']}", "the class 'true' is given twice"),
        ("{column: y, cap: 0}", "0 is not allowed, it must be a number above 0"),
        ("{column: y, name: Y}", "'Y' is not allowed"),
        ("{column: y, at: horizon, horizon: 0}", "0 is not allowed, it must be a whole number from 1 to 1,000,000"),
        (f"{{column: y, classes: {list(range(MOST_CLASSES + 1))}}}", "1001 classes, at most 1000 are supported"),
        ("[{column: y}, {column: z}]", "label: two labels have the name 'label'; give each its own"),
    ],
)
def test_mistakes_are_one_line(label, message):
    (line,) = complaint(JOB, f"label={label}").splitlines()
    assert message in line


@pytest.mark.parametrize(
    ("value", "name"), [(True, "true"), (False, "false"), (1, "1"), (0, "0"), ("True", "True"), (1.5, "1.5"), ("", "")]
)
def test_names_of_classes(value, name):
    assert class_name(value) == name


def test_a_job_with_a_label_says_what_to_learn():
    with pytest.raises(UserError, match=r"train.task: is missing: the job has a label, so say whether to"):
        parse_job(JOB, ["label={column: y}", TRAIN % ""])
    assert parse_job(JOB, ["label={column: y}", TRAIN % ", task: {name: regress}"]).train.task.target == "label"
    assert parse_job(JOB, [TRAIN % ""]).train.task.name == "reconstruct"


LABELS = "label=[{name: fault, column: y, classes: auto}, {name: life, column: z}, {name: w, column: v, role: weight}]"


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("{name: classify}", "train.task.target: there is no such label: 'label' (the labels with role target: "),
        (
            "{name: classify, target: fualt}",
            "train.task.target: there is no such label: 'fualt'; did you mean 'fault'?",
        ),
        (
            "{name: classify, target: w}",
            "train.task.target: there is no such label: 'w' (the labels with role target: ",
        ),
        ("{name: classify, target: life}", "train.task: classify needs classes: give the label 'life' 'classes: auto'"),
        ("{name: regress, target: fault}", "train.task: regress needs numbers, the label 'fault' has classes"),
        (
            "{name: forecast, target: life}",
            "train.task: forecast needs the rows behind a window: give the label 'life' 'ahead: {rows: 24}'",
        ),
        (
            "{name: regress, target: life, sample_weight: life}",
            "train.task.sample_weight: there is no such label: 'life' (the labels with role weight: w)",
        ),
        (
            "{outputs: {a: {name: classify, target: life}, b: {name: reconstruct}}}",
            "train.task.outputs.a: classify needs classes: give the label 'life' 'classes: auto'",
        ),
    ],
)
def test_a_task_that_does_not_fit_the_labels_is_told_before_any_work(task, message):
    train = f"train={{model: {{name: recurrent}}, task: {task}, workdir: w}}"
    (line,) = complaint(JOB, LABELS, train).splitlines()
    assert message in line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{column: a, on: end}", "label: has the key true, which YAML does not take for text; write it in quotes"),
        ("fault", "label: 'fault' is not allowed, it must be a mapping, or a list of them"),
    ],
)
def test_what_yaml_makes_of_words(text, message):
    (line,) = complaint(JOB, f"label={text}").splitlines()
    assert message in line
