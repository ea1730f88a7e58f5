"""Sections that are one of several, and lists that may be one."""

from typing import Annotated, Literal

import pytest
from job_text import complaint
from pydantic import Field, ValidationError

from beamfeed.contract.config.section import OneOf, OneOrMore, Section

JOB = """\
name: x
source: {kind: timeseries, files: f, time: {column: t}, features: [a]}
windows: {length: 3}
output: {path: o}
train:
  model: {name: recurrent_autoencoder}
  workdir: w
"""


class Circle(Section):
    shape: Literal["circle", "disc"]
    radius: int


class Square(Section):
    shape: Literal["square"]
    side: int = 1


class Drawn(Section):
    file: str


class Picture(Section):
    one: Annotated[Section, OneOf("shape", (Circle, Square, Drawn))] = Square(shape="square")
    more: Annotated[list[Square], OneOrMore()] = Field(default=[])


def line(value: object) -> str:
    with pytest.raises(ValidationError) as caught:
        Picture.model_validate({"one": value})
    (error,) = caught.value.errors()
    return error["msg"].removeprefix("Value error, ")


@pytest.mark.parametrize(
    ("value", "member"),
    [
        ({"shape": "circle", "radius": 2}, Circle(shape="circle", radius=2)),
        ({"shape": "disc", "radius": 2}, Circle(shape="disc", radius=2)),
        ({"shape": "square"}, Square(shape="square")),
        ({"file": "a.png"}, Drawn(file="a.png")),
        (Square(shape="square", side=3), Square(shape="square", side=3)),
    ],
)
def test_the_key_tells_the_section(value, member):
    assert Picture.model_validate({"one": value}).one == member


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"shape": "circel", "radius": 2},
         "shape 'circel' is not allowed; did you mean 'circle'? (allowed: circle, disc, square)"),
        ({"shape": 3}, "shape 3 is not allowed (allowed: circle, disc, square)"),
        ({"radius": 2}, "needs shape: circle or disc or square, or file: ..."),
        ("circle", "'circle' is not allowed, it must be a mapping with shape: circle or disc or square, or file: ..."),
        (None, "is empty, it must be a mapping with shape: circle or disc or square, or file: ..."),
    ],
)  # fmt: skip
def test_what_is_none_of_them_is_told_with_those_there_are(value, message):
    assert line(value) == message


def test_a_mistake_inside_is_that_of_the_section_that_was_meant():
    with pytest.raises(ValidationError) as caught:
        Picture.model_validate({"one": {"shape": "circle", "radius": 2, "colour": "red"}})
    (error,) = caught.value.errors()
    assert error["type"] == "extra_forbidden"
    assert error["loc"][-1] == "colour"


def test_a_list_may_be_written_as_its_only_member():
    square = {"shape": "square", "side": 2}
    assert Picture.model_validate({"more": square}).more == Picture.model_validate({"more": [square]}).more
    assert Picture.model_validate({"more": []}).more == []
    schema = Picture.model_json_schema()["properties"]["more"]
    assert {"$ref": "#/$defs/Square"} in schema["anyOf"]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.model={name: recurent}", "train.model: name 'recurent' is not allowed; did you mean 'recurrent'? "
                                         "(allowed: recurrent_autoencoder, dense_autoencoder, recurrent, dlinear, "
                                         "tabular, linear, text, residual, application, multi_input)"),
        ("train.model={units: [3]}", "train.model: needs name: recurrent_autoencoder or dense_autoencoder or recurrent "
                                   "or dlinear or tabular or linear or text or residual or application or "
                                   "multi_input, or class: ..."),
        ("train.model={name: recurrent, unit: [3]}", "train.model.unit: unknown key; did you mean 'units'? "
                                                     "(allowed: members, name, cell, units, dense, dropout)"),
        ("train.model={name: recurrent, class: 'a:B'}",
         "train.model: give either 'name', for the built-in model, or 'class', for your own"),
        ("train.model={class: 'a:B', size: 3}", "train.model: unknown key size beside 'class' (allowed: class, args)"),
        ("train.model={class: 'a', args: {}}", "'a' must be module:Class, such as my_package.my_module:MyModel"),
        ("train.model={class: 'a:B', args: {outputs: 3}}", "outputs: the dataset says this, leave it out"),
        ("train.task={name: clasify}", "train.task: name 'clasify' is not allowed; did you mean 'classify'? "
                                       "(allowed: reconstruct, classify, regress, forecast)"),
        ("train.task={name: classify, targets: y}", "train.task.targets: unknown key; did you mean 'target'?"),
        ("train.task={outputs: {}}", "train.task.outputs: names no output"),
        ("train.task={outputs: {a: {name: regres}}}", "name 'regres' is not allowed; did you mean 'regress'?"),
        ("train.task={outputs: {A: {name: regress}}}", "train.task.outputs"),
        ("train.task={name: classify, class_weights: even}", "'even' is not allowed, it must be balanced or a mapping"),
        ("source.kind=tables", "kind 'tables' is not allowed; did you mean 'table'? "
                               "(allowed: timeseries, table, image, array)"),
        ("label={column: y, at: endd}", "label.at: 'endd' is not allowed; did you mean 'end'?"),
        ("label=[{column: y}, {column: y, at: endd}]", "label.1.at: 'endd' is not allowed; did you mean 'end'?"),
        ("label={columns: y}", "label.columns: unknown key; did you mean 'column'?"),
        ("label=y", "label: 'y' is not allowed"),
    ],
)  # fmt: skip
def test_mistakes_in_such_sections_are_one_line_with_their_place(override, message):
    (told,) = complaint(JOB, override).splitlines()
    assert message in told


def test_a_label_in_a_file_is_found_at_its_line():
    text = JOB + "label:\n  - column: y\n  - column: z\n    name: z\n    horizn: 3\n"
    assert complaint(text).startswith("job.yaml:12: label.1.horizn: unknown key; did you mean 'horizon'?")
