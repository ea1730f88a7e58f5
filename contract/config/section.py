"""What every section of the job file is: strict, frozen, and able to name a key that has a new name."""

import os
import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationInfo,
    field_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from beamfeed.contract.errors import UserError, near_miss
from beamfeed.contract.storage.files import is_remote


@dataclass(frozen=True)
class InWords:
    """Annotates a value with the words by which messages describe it, where what the file holds is not allowed.

    Args:
      words: what is allowed, after `it must be`.
    """

    words: str


# Of a field of the dataset, or an output of a model.
FieldName = Annotated[
    str,
    Field(pattern=r"^[a-z][a-z0-9_]*$"),
    InWords("small letters, digits and _, with a letter first, such as fault_2"),
]
Positive = Annotated[int, Field(ge=1)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Float32 = Annotated[  # what a value may count as that is stored as float32: it must not become infinite there
    float, Field(ge=-3.4e38, le=3.4e38, allow_inf_nan=False), InWords("a number that float32 can hold")
]
Duration = Annotated[str | int | float, InWords("a duration, such as 5s, 250ms or 1h, or a number above 0")]


def _reached(path: str) -> str:
    """The path; `~` is the home folder of the user."""
    path = os.path.expanduser(path)
    try:
        is_remote(path)
    except UserError as error:
        raise ValueError(str(error)) from None
    return path


FilePath = Annotated[str, AfterValidator(_reached)]


def _is_no_glob(path: str) -> str:
    """The path of a folder that is written to; TensorFlow finds the files of a checkpoint by globs."""
    if odd := next((letter for letter in path if letter in "*?[]\\"), None):
        raise ValueError(f"{path!r} holds {odd!r}, which TensorFlow takes for a glob; choose another folder")
    return path


FolderPath = Annotated[FilePath, AfterValidator(_is_no_glob)]


class Section(BaseModel):
    """A mapping of the job file.

    Attributes:
      example: as a job file has it, for who writes something else in its place.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, protected_namespaces=(), allow_inf_nan=False)
    example: ClassVar[str] = "{}"

    @field_validator("*", mode="before")
    @classmethod
    def _yes_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        """YAML has yes and no for true and false, which Python takes for 1 and 0."""
        if isinstance(value, bool) and info.field_name in cls.model_fields:
            kinds = kinds_of(cls.model_fields[info.field_name].annotation)
            if {int, float} & kinds and bool not in kinds:
                raise PydanticCustomError("bool_as_number", "is no number")
        return value


def kinds_of(annotation: Any) -> set[Any]:
    """The types of which a value may be, without what lists and mappings hold."""
    if get_origin(annotation) in (list, dict, tuple):
        return {get_origin(annotation)}
    parts = get_args(annotation)[:1] if get_origin(annotation) is Annotated else get_args(annotation)
    return set().union(*map(kinds_of, parts)) if parts else {annotation}


@dataclass(frozen=True)
class OneOf:
    """Annotates a section that is one of several: the one whose Literal at `key` the mapping names.

    A member whose `key` is required by nobody else may stand for another key, see `member`.

    Args:
      key: that tells the members apart.
      members: their classes; each narrows `key` to a Literal, or has no such key and is told by another, required one.
    """

    key: str
    members: tuple[type[Section], ...]

    def names(self) -> dict[str, type[Section]]:
        """The members by the names that `key` may have."""
        return {
            name: member
            for member in self.members
            if self.key in member.model_fields
            for name in get_args(member.model_fields[self.key].annotation)
        }

    def others(self) -> dict[str, type[Section]]:
        """The members without `key`, each by the first key that it cannot do without."""
        return {
            next(field.alias or name for name, field in member.model_fields.items() if field.is_required()): member
            for member in self.members
            if self.key not in member.model_fields
        }

    def member(self, value: Any) -> type[Section] | None:
        """The member that a mapping is meant to be; None where it does not tell."""
        if not isinstance(value, dict):
            return None
        members = [member for key, member in self.others().items() if key in value]
        if members:
            return members[0]
        name = value.get(self.key)
        return self.names().get(name) if isinstance(name, str) else None

    def _look_up(self, value: Any) -> Any:
        if isinstance(value, self.members):
            return value
        member = self.member(value)
        if member is not None:
            return member.model_validate(value)
        names = list(self.names())
        ways = [f"{self.key}: {' or '.join(names)}", *(f"{key}: ..." for key in self.others())]
        if value is None:
            raise ValueError(f"is empty, it must be a mapping with {', or '.join(ways)}")
        if not isinstance(value, dict):
            raise ValueError(f"{value!r} is not allowed, it must be a mapping with {', or '.join(ways)}")
        if value.get(self.key) is None:
            raise ValueError(f"needs {', or '.join(ways)}")
        name = value[self.key]
        raise ValueError(f"{self.key} {name!r} is not allowed{near_miss(name, names)} (allowed: {', '.join(names)})")

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        union = handler.generate_schema(Union[self.members])  # noqa: UP007 - of a tuple
        return core_schema.no_info_before_validator_function(self._look_up, union)


class OneOrMore:
    """Annotates a list of sections that may be written as one of them, without the dashes."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def listed(value: Any) -> Any:
            if isinstance(value, dict | Section):
                return [value]
            if not isinstance(value, list):
                raise ValueError(f"{value!r} is not allowed, it must be a mapping, or a list of them")
            return value

        return core_schema.no_info_before_validator_function(listed, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        array = handler(schema)
        return {"anyOf": [array["items"], array]}


def short_for(key: str, *kinds: type) -> BeforeValidator:
    """Annotates a mapping of sections: a value of these kinds is short for a section with it at `key`.

    So `amount: numeric` may stand for `amount: {type: numeric}`.
    """

    def written_out(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: {key: section} if isinstance(section, kinds) else section for name, section in value.items()}

    return BeforeValidator(written_out)


def class_name(value: object) -> str:
    """A value of a column as the name of a class: True and False in lower case, as YAML and Arrow write them."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def names_groups(value: str, example: str) -> str:
    """The value, if it is a regular expression with named groups, such as this one.

    Raises:
      ValueError: if it is not.
    """
    try:
        groups = re.compile(value).groupindex
    except re.error as error:
        raise ValueError(f"{value!r} is not a regular expression: {error}") from None
    if not groups:
        raise ValueError(f"{value!r} has no named group such as {example}")
    return value


def names_code(value: str, kind: str, example: str) -> str:
    """The value, if it is `package.module:Name`.

    Raises:
      ValueError: if it is not.
    """
    module, colon, name = value.partition(":")
    if not colon or not all(part.isidentifier() for part in [*module.split("."), name]):
        raise ValueError(f"{value!r} must be module:{kind}, such as {example}")
    return value
