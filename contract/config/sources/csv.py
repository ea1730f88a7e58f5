"""How text files are written: the section `source.csv`. What is `auto` is found out from the beginning of each file."""

import codecs
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from beamfeed.contract.config.section import Section

Auto = Literal["auto"]
_NAMED = {"tab": "\t", r"\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|"}


def _one_character(value: str | None, name: str) -> str | None:
    if value is None or value == "auto":
        return value
    value = _NAMED.get(value, value)
    if len(value) != 1 or ord(value) > 127 or value in "\r\n":
        raise ValueError(f"{value!r} is not allowed, {name} is one ASCII character (or: {', '.join(_NAMED)})")
    return value


class Csv(Section):
    """How CSV and other text files are written. A plain CSV needs none of this.

    `auto` is detected from the beginning of each file; what is given is never guessed.
    """

    example: ClassVar[str] = "{delimiter: semicolon}"

    delimiter: str = Field(
        default="auto", description="Between two values: auto, or a character, also in words: tab, space."
    )
    quote: str | None = Field(default='"', description="Around a value that holds a delimiter; null: quotes are text.")
    escape: str | None = Field(default=None, description="Before a character that is to be taken as it is.")
    decimal: str = Field(default="auto", description="Before the decimals of a number: auto, '.' or ','.")
    thousands: str | None = Field(
        default="auto",
        description="Between groups of three digits: auto, '.', ',', ' ' or \"'\"; null: nothing, 1,234 is no number.",
    )
    encoding: str = Field(
        default="auto", description="auto, or a name such as utf-8, cp1252, latin-1, utf-16, shift_jis."
    )
    skip_lines: Annotated[int, Field(ge=0)] | Auto = Field(
        default="auto", description="Lines before the line of names, or before the rows where there is none."
    )
    header: Auto | bool = Field(
        default="auto", description="Whether a line names the columns. Without one they are f0, f1, ... or `names`."
    )
    names: list[str] = Field(default=[], description="Names of the columns, of all of them and in order.")
    skip_after_header: Annotated[int, Field(ge=0)] | Auto = Field(
        default="auto", description="Lines between the names and the rows, such as one of units."
    )
    skip_last: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=0, description="Lines at the end of a file that are no rows, such as a sum."
    )
    comment: str | None = Field(
        default="auto", description="What a line that is to be left out begins with; null: nothing. auto finds #."
    )
    null_words: list[str] = Field(
        default=[], description="Words for a missing value, beside the usual ones (NA, null, -, #VALUE!, ...)."
    )

    @field_validator("delimiter")
    @classmethod
    def _delimiter(cls, value: str) -> str | None:
        return _one_character(value, "a delimiter")

    @field_validator("quote", "escape")
    @classmethod
    def _character(cls, value: str | None) -> str | None:
        if value == "auto":
            raise ValueError("'auto' is not allowed, it must be one ASCII character or null")
        return _one_character(value, "it")

    @field_validator("decimal")
    @classmethod
    def _decimal(cls, value: str) -> str:
        if value not in ("auto", ".", ","):
            raise ValueError(f"{value!r} is not allowed, it must be auto, '.' or ','")
        return value

    @field_validator("thousands")
    @classmethod
    def _thousands(cls, value: str | None) -> str | None:
        if value not in (None, "auto", ".", ",", " ", "'"):
            raise ValueError(f"{value!r} is not allowed, it must be auto, '.', ',', ' ', \"'\" or null")
        return value

    @field_validator("encoding")
    @classmethod
    def _encoding(cls, value: str) -> str:
        if value == "auto":
            return value
        try:
            name = codecs.lookup(value).name
            "".encode(name)
        except (LookupError, ValueError):
            raise ValueError(f"{value!r} is not an encoding, such as utf-8, cp1252, latin-1, utf-16") from None
        return name

    @field_validator("comment")
    @classmethod
    def _comment(cls, value: str | None) -> str | None:
        if value is not None and (not value.isascii() or not value or value != value.strip()):
            raise ValueError(f"{value!r} is not allowed, it must be ASCII characters without white space")
        return value

    @model_validator(mode="after")
    def _they_differ(self) -> "Csv":
        # A delimiter may stand in quoted numbers, so it may also be the decimal or the thousands character.
        for key, other_key in (("decimal", "thousands"), ("quote", "delimiter"), ("escape", "delimiter")):
            value = getattr(self, key)
            if value not in (None, "auto") and value == getattr(self, other_key):
                raise ValueError(f"{key} and {other_key} are both {value!r}")
        if twice := [name for name in self.names if self.names.count(name) > 1]:
            raise ValueError(f"names: {twice[0]!r} is there twice")
        return self
