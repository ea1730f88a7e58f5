"""The JSON Schema that `beamfeed schema` prints."""

import json

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


def test_the_command_prints_it(capsys):
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == job_schema()
