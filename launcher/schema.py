"""The JSON Schema of a job file, in which every key is described: editors show it, and check what is written."""

from typing import Any

from beamfeed.contract.config.mistakes import INCLUDE
from beamfeed.launcher.job import job_model

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_INCLUDE = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
    "description": "Other job files, whose keys hold where this one does not give them: a path, or a list of paths; "
    "from the folder of this file, absolute, or gs://",
}


def job_schema() -> dict[str, Any]:
    """The schema. A key that holds a section is described by what the section says of itself."""
    schema = job_model().model_json_schema(by_alias=True)
    sections = schema["$defs"]
    for section in (schema, *sections.values()):
        for key in section.get("properties", {}).values():
            if "description" not in key and (told := _told(key, section, sections)):
                key["description"] = told
    required = schema.pop("required")
    return {
        "$schema": DIALECT,
        **schema,
        "properties": {INCLUDE: _INCLUDE, **schema["properties"]},
        "anyOf": [{"required": [INCLUDE]}, {"required": required}],  # an included file may hold them
    }


def _told(key: dict[str, Any], section: dict[str, Any], sections: dict[str, Any]) -> str:
    """The description of the one section that a key may hold; of a key that names its own section, that section's."""
    if "const" in key:
        return str(section.get("description", ""))
    refs = [part["$ref"] for part in (key, *key.get("anyOf", ())) if "$ref" in part]
    return str(sections[refs[0].rsplit("/", 1)[1]].get("description", "")) if len(refs) == 1 else ""
