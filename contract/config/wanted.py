"""What the job file may hold at a key, in plain words, from the annotations of the sections."""

import types
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from beamfeed.contract.config.section import InWords, OneOf, OneOrMore, Section

Key = tuple[str | int, ...]
LONGEST = 60  # characters of a value that are shown


@dataclass(frozen=True)
class _Limits:
    low: float | None = None
    above: bool = False  # whether `low` itself is left out
    high: float | None = None
    below: bool = False
    filled: bool = False  # whether at least one entry, or letter, is needed


def annotation_at(key: Key, model: type[Section], data: Any) -> Any:
    """The annotation of what stands at `key` in a file of `model` that holds `data`; None where there is none."""
    here: Any = model
    for part in key:
        section = section_of(here, data)
        fields = {(field.alias or name): field for name, field in section.model_fields.items()} if section else {}
        field = fields.get(str(part))
        here = _values_of(here, part) if field is None else Annotated[field.annotation, *field.metadata, None]
        data = value_at((part,), data)
    return here


def value_at(key: Key, data: Any) -> Any:
    """What stands at `key` in a file that holds `data`; None where nothing does."""
    for part in key:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def section_of(annotation: Any, value: Any) -> type[Section] | None:
    """The section that an annotation stands for, where the file has `value`."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    for metadata in getattr(annotation, "__metadata__", ()):
        if isinstance(metadata, OneOf):
            return metadata.member(value)
        if isinstance(metadata, OneOrMore) and isinstance(value, dict):
            return section_of(_values_of(annotation), value)
    if get_origin(annotation) in (dict, list):
        return None
    return next((section for member in get_args(annotation) if (section := section_of(member, value))), None)


def words_for(annotation: Any) -> str:
    """What is allowed: `auto or a whole number from 1 to 1,024`."""
    return " or ".join(dict.fromkeys(_alternatives(annotation, _Limits())))


def key_words_for(annotation: Any) -> str:
    """As `words_for`, of the keys of a mapping."""
    if get_origin(annotation) is dict:
        return words_for(get_args(annotation)[0])
    return next((words for member in get_args(annotation) if (words := key_words_for(member))), "")


def shown(value: Any) -> str:
    """A value as a job file has it, the beginning of a long one."""
    text = _shown(value, 0).replace("\n", "\\n")
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."


def _shown(value: Any, depth: int) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict | list) and depth > 2:
        return "..."
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_shown(item, depth + 1)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_shown(item, depth + 1) for item in value) + "]"
    return (str(value) if depth else repr(value)) if isinstance(value, str | bytes) else str(value)


def _alternatives(annotation: Any, limits: _Limits) -> list[str]:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        fixed = [metadata.words for metadata in annotation.__metadata__ if isinstance(metadata, InWords)]
        return fixed or _alternatives(inner[0], _limits(annotation.__metadata__, limits))
    if origin in (Union, types.UnionType):
        return [words for member in inner if member is not type(None) for words in _alternatives(member, limits)]
    if origin is Literal:
        return [_shown(member, 1) for member in inner]
    if origin is tuple:
        return [f"a list of {len(inner)} values, each {_with_null(inner[0])}"]
    if origin is list:
        return [f"a list{_entries(inner[0])}{' with at least one entry' if limits.filled else ''}"]
    if origin is dict:
        return ["a mapping, such as {name: value}"]
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [f"a mapping, such as {annotation.example}"]
    plain = {int: _number("a whole number", limits), float: _number("a number", limits), bool: "true or false"}
    return [plain.get(annotation, "text that is not empty" if limits.filled else "text")]


def _with_null(annotation: Any) -> str:
    return words_for(annotation) + (" or null" if type(None) in get_args(annotation) else "")


def _entries(annotation: Any) -> str:
    """What a list holds, where a word says it."""
    words = words_for(annotation)
    if get_origin(annotation) is Literal:
        return f" of {words}"
    return ", such as [one, two]" if words.startswith("text") else ", such as [64, 32]" if "number" in words else ""


def _limits(metadata: Any, limits: _Limits) -> _Limits:
    for item in metadata:
        if isinstance(item, FieldInfo):
            limits = _limits(item.metadata, limits)
        low, above = getattr(item, "ge", None), getattr(item, "gt", None)
        high, below = getattr(item, "le", None), getattr(item, "lt", None)
        if low is not None or above is not None:
            limits = replace(limits, low=low if above is None else above, above=above is not None)
        if high is not None or below is not None:
            limits = replace(limits, high=high if below is None else below, below=below is not None)
        if getattr(item, "min_length", 0):
            limits = _Limits(filled=True)
    return limits


def _number(name: str, limits: _Limits) -> str:
    low, high = limits.low, limits.high
    if low is not None and high is not None:
        if not (limits.above or limits.below):
            return f"{name} from {low:,} to {high:,}"
        if limits.above and limits.below:
            return f"{name} between {low:,} and {high:,}"
        return f"{name} above {low:,}, up to {high:,}" if limits.above else f"{name} from {low:,}, below {high:,}"
    if high is not None:
        return f"{name} {'below' if limits.below else 'up to'} {high:,}"
    if low is None:
        return name
    if limits.above:
        return f"{name} above {low:,}"
    return f"{name} above {low - 1:,}" if name == "a whole number" and low > 0 else f"{name}, {low:,} or more"


def _values_of(annotation: Any, part: str | int = "") -> Any:
    """What a list, a tuple or a mapping holds."""
    if get_origin(annotation) is tuple and isinstance(part, int):
        return get_args(annotation)[part]
    if get_origin(annotation) in (dict, list):
        return get_args(annotation)[-1]
    return next((values for member in get_args(annotation) if (values := _values_of(member, part))), None)
