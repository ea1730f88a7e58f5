"""The JSON Schema that `beamfeed schema` prints."""

import json
import re

import pytest

from beamfeed.launcher.cli import main
from beamfeed.launcher.schema import job_schema


def keys_of(node, path):
    """Each key of each section of a schema, with what is said of it."""
    if isinstance(node, list):
        for one in node:
            yield from keys_of(one, path)
    elif isinstance(node, dict):
        for name, one in node.get("properties", {}).items():
            yield f"{path}.{name}", one
            yield from keys_of(one, f"{path}.{name}")
        for name, one in node.get("$defs", {}).items():
            yield from keys_of(one, name)
        for name in ("anyOf", "oneOf", "allOf", "items", "additionalProperties", "prefixItems"):
            yield from keys_of(node.get(name), path)


def test_every_key_is_described():
    keys = dict(keys_of(job_schema(), "job"))
    assert len(keys) > 150
    assert [key for key, one in keys.items() if len(one.get("description", "").split()) < 2] == []
    assert {"job.include", "job.source", "TableSource.key", "Train.model", "DataflowSection.project"} <= set(keys)


def test_every_section_is_described():
    assert [name for name, one in job_schema()["$defs"].items() if not one.get("description")] == []


def test_a_section_is_described_once():
    """Where a key holds a section, the section's own words describe it."""
    schema = job_schema()
    assert schema["properties"]["split"]["description"] == schema["$defs"]["Split"]["description"]
    assert schema["$defs"]["Bucket"]["properties"]["type"]["description"] == schema["$defs"]["Bucket"]["description"]


@pytest.mark.parametrize("data", [{"include": "a.yaml"}, {"name": "a", "source": {}, "output": {}}])
def test_what_an_included_file_holds_need_not_be_given(data):
    assert any(set(way["required"]) <= set(data) for way in job_schema()["anyOf"])


def allows(schema, value):
    """As a validator of JSON Schema does, of what the schemas of single values use."""
    kinds = {"integer": int, "number": (int, float), "boolean": bool, "string": str, "null": type(None), "array": list}
    if "anyOf" in schema:
        return any(allows(way, value) for way in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    if "type" not in schema:
        return False
    if not isinstance(value, kinds.get(schema["type"], dict)):
        return False
    return not isinstance(value, str) or bool(re.search(schema.get("pattern", ""), value))


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [("Train", "epochs", 3), ("Feed", "cache", "memory"), ("Prepare", "max_gap", "5s"), ("Train", "floor", True)],
)
def test_a_variable_may_stand_for_any_value(section, key, value):
    schema = job_schema()["$defs"][section]["properties"][key]
    assert allows(schema, value)
    assert allows(schema, "${NAME}")
    assert allows(schema, "${NAME:-4}")
    assert schema["description"]


def test_other_words_are_still_refused():
    sections = job_schema()["$defs"]
    assert not allows(sections["Train"]["properties"]["epochs"], "three")
    assert not allows(sections["Feed"]["properties"]["cache"], "disk")


def test_the_command_prints_it(capsys):
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == job_schema()
