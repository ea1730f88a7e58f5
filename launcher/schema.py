"""The JSON Schema of a job file, in which every key is described: editors show it, and check what is written."""

from collections.abc import Iterator
from typing import Any

from beamfeed.contract.config.mistakes import INCLUDE
from beamfeed.launcher.job import job_model

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_INCLUDE = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
    "description": "Other job files, whose keys apply where this one does not set them: a path, or a list of paths; "
    "relative to this file, absolute, or gs://",
}
# What may stand where something else than a text is asked for: its value becomes that.
_VARIABLE = {"type": "string", "pattern": r"\$\{", "description": "A variable of the environment: ${NAME}."}
_NO_TEXT = ("integer", "number", "boolean")
_ABOUT = ("description", "default", "title", "examples")


def job_schema() -> dict[str, Any]:
    """The schema. A key that holds a section is described by what the section says of itself."""
    schema = job_model().model_json_schema(by_alias=True)
    sections = schema["$defs"]
    for section in (schema, *sections.values()):
        for key in section.get("properties", {}).values():
            if "description" not in key and (description := _section_description(key, section, sections)):
                key["description"] = description
    for section in (schema, *sections.values()):
        for key in _values(section):
            _allow_variable(key)
    required = schema.pop("required")
    return {
        "$schema": DIALECT,
        **schema,
        "properties": {INCLUDE: _INCLUDE, **schema["properties"]},
        "anyOf": [{"required": [INCLUDE]}, {"required": required}],  # an included file may hold them
    }


def _values(section: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What a section's keys, and the entries of their lists and mappings, may hold."""
    inner = [*section.get("properties", {}).values(), *section.get("anyOf", ())]
    inner += [part for part in (section.get("items"), section.get("additionalProperties")) if isinstance(part, dict)]
    for value in inner:
        yield from _values(value)
        yield value


def _allow_variable(value: dict[str, Any]) -> None:
    """Changes the schema of a value that is no text: it may also be a variable, whose value becomes that."""
    ways = value.get("anyOf", [value])
    takes_texts = any(way.get("type") == "string" and "enum" not in way for way in ways)
    if takes_texts or not any(way.get("type") in _NO_TEXT or "enum" in way for way in ways):
        return
    about = {name: value.pop(name) for name in _ABOUT if name in value}
    alone = ways if "anyOf" in value else [dict(value)]
    value.clear()
    value.update(about, anyOf=[*alone, _VARIABLE])


def _section_description(key: dict[str, Any], section: dict[str, Any], sections: dict[str, Any]) -> str:
    """The description of the one section that a key may hold; of a key that names its own section, that section's."""
    if "const" in key:
        return str(section.get("description", ""))
    refs = [part["$ref"] for part in (key, *key.get("anyOf", ())) if "$ref" in part]
    return str(sections[refs[0].rsplit("/", 1)[1]].get("description", "")) if len(refs) == 1 else ""
