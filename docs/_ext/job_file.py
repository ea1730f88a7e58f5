"""Writes the keys of the job file into docs/job_file.md, from the models that check it."""

import re
from typing import Any

from sphinx.application import Sphinx

from beamfeed.launcher.job import job_model

PAGE = "job_file"
MARKER = "*`beamfeed schema` lists them; `make docs` puts them here.*"
WORDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true` or `false`"}


class Keys:
    """The Markdown of all sections.

    Args:
      schema: the JSON schema of the whole job file.
    """

    def __init__(self, schema: dict[str, Any]):
        self._known = schema["$defs"]
        self.lines: list[str] = []
        self._section("", schema)

    def _section(self, path: str, schema: dict[str, Any]) -> None:
        """Adds the table of a section, and then the sections in it."""
        inner: list[tuple[str, dict[str, Any]]] = []
        rows = []
        for key, value in schema["properties"].items():
            if self._sections_of(value):
                inner.append((key, value))
                continue
            given = "**required**" if key in schema.get("required", ()) else default(value.get("default"))
            rows.append(f"| `{key}` | {self._kind(value)} | {given} | {plain(value.get('description', ''))} |")
        if rows:
            self.lines += ["| key | value | default | |", "| --- | --- | --- | --- |", *rows, ""]
        for key, value in inner:
            named = ".NAME" if mapped(value) else ""
            self._inner(f"{path}.{key}{named}".lstrip("."), value, required=key in schema.get("required", ()))

    def _inner(self, path: str, value: dict[str, Any], required: bool) -> None:
        sections = self._sections_of(value)
        self.lines += ["##" + "#" * ("." in path) + f" {path}", ""]
        if len(sections) > 1 and not required:
            self.lines += ["This section may be left out.", ""]
        if len(sections) > 1 and "description" in value:
            self.lines += [plain(value["description"]), ""]
        for section in sections:
            about = [plain(section.get("description", ""))]
            if len(sections) == 1 and "description" in value:
                about = [plain(value["description"])]
            if "items" in value:
                about.append("A list; each of it:")
            if len(sections) > 1:
                key = section["required"][0]
                const = section["properties"][key].get("const")
                about.insert(0, f"With `{key}: {const}`:" if const else f"With `{key}`:")
            elif not required and "items" not in value:
                about.append("This section may be left out.")
            self.lines += [" ".join(about), ""]
            self._section(path, section)

    def _sections_of(self, value: dict[str, Any]) -> list[dict[str, Any]]:
        """The sections that a key may hold, as it is, by names of the user's own or in a list; else none."""
        value = mapped(value) or value.get("items") or value
        parts = [self._known[part["$ref"].rsplit("/", 1)[1]] for part in union(value) if "$ref" in part]
        return [part for part in parts if "properties" in part]

    def _kind(self, value: dict[str, Any]) -> str:
        """What a key may hold, in words."""
        if "$ref" in value:
            return self._kind(self._known[value["$ref"].rsplit("/", 1)[1]])
        if len(union(value)) > 1:
            kinds = [self._kind(part) for part in union(value) if part.get("type") != "null"]
            return "duration" if kinds == ["text", "whole number", "number"] else " or ".join(kinds)
        if options := value.get("enum", [value["const"]] if "const" in value else []):
            return ", ".join(f"`{option}`" for option in options)
        if value.get("type") == "array":
            if inside := value.get("prefixItems"):
                return f"[{', '.join(self._kind(part) for part in inside)}]"
            return f"list of {self._kind(value['items'])}".replace("number", "numbers")
        if value.get("type") == "object":
            return "mapping" + (f" to {self._kind(inside)}" if (inside := mapped(value)) else "")
        return WORDS.get(value.get("type", ""), "anything") + limits(value)


def union(value: dict[str, Any]) -> list[dict[str, Any]]:
    """The kinds that a value may be of."""
    return value.get("anyOf") or value.get("oneOf") or [value]


def mapped(value: dict[str, Any]) -> dict[str, Any] | None:
    """What each name of the user's own holds, where a key takes such names."""
    named = [*value.get("patternProperties", {}).values(), value.get("additionalProperties")]
    return next((inside for inside in named if isinstance(inside, dict)), None)


def default(value: Any) -> str:
    """A default as YAML has it."""
    if value in (None, {}, []):
        return "none" if value is None else "empty"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def limits(value: dict[str, Any]) -> str:
    """The range of a number."""
    if "minimum" in value and "maximum" in value:
        return f", {value['minimum']:,} to {value['maximum']:,}"
    words = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "above"}
    return "".join(f", {word} {value[key]:,}" for key, word in words.items() if key in value)


def plain(text: str) -> str:
    """The text, safe from being taken for Markdown; what stands in backticks stays code."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    parts[::2] = [re.sub(r"([\\*_{}\[\]<>|#])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def on_source(app: Sphinx, docname: str, source: list[str]) -> None:
    """Writes the keys where the page has the marker."""
    if docname == PAGE:
        source[0] = source[0].replace(MARKER, "\n".join(Keys(job_model().model_json_schema()).lines))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", on_source)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
