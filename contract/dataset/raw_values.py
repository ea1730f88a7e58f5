"""What the values of a table's files become before the transform graph gets them, carried with the dataset.

Preprocessing finds it out of the files and reads them by it; the exported model reads rows by it that come as text.
All patterns are of RE2, which Arrow and TensorFlow share.
"""

import re
from collections.abc import Iterable

from pydantic import Field, ValidationError

from beamfeed.contract import storage
from beamfeed.contract.config.features import Reads
from beamfeed.contract.dataset.strict import Strict
from beamfeed.contract.errors import UserError

NOTHING = "__HIVE_DEFAULT_PARTITION__"  # how Hive writes a missing value into the name of a folder
WHOLE_NUMBER = r"^(-?\d+)\.0+$"  # with zeros behind a point, which say nothing
WHITE_SPACE = r"[\s\x0b\x1c-\x1f\x{85}\pZ]"  # what counts for nothing around a value


def whole_words(words: Iterable[str]) -> list[str]:
    """The words, and those that they are where 7.0 is 7."""
    return list(dict.fromkeys(form for word in words for form in (word, re.sub(WHOLE_NUMBER, r"\1", word))))


class RawColumn(Strict):
    """A column that features read."""

    reads: Reads
    trims: bool = Field(description="White space around a value counts for nothing.")
    null_words: bool = Field(description="The words for a missing value are none of its values.")
    bools: bool = Field(default=False, description="It holds true and false.")
    typed: bool = Field(
        default=False, description="The files hold floats or times as such: the text 7.0 is 7, and no year is too far."
    )
    whole: bool = Field(default=False, description="The text 7.0 is 7, as everywhere in its files.")
    pattern: str = Field(default="", description="Of times: their parts by name, as Python's strptime has the letters.")
    aware: bool | None = Field(default=None, description="Whether times have a zone; null: they may.")
    of_path: bool = Field(default=False, description="Folders tell it, which have a word of their own for nothing.")
    required: bool = Field(default=False, description="A row without a value is set aside.")


class RawValues(Strict):
    """How the files write their values, and what becomes of each column that features read."""

    null_words: list[str] = Field(description="For a missing value.")
    true_words: list[str]
    false_words: list[str]
    decimal: str = Field(description="Before the decimals of a number.")
    group: str = Field(default="", description="Pattern of what stands between groups of three digits.")
    grouped: str = Field(default="", description="Pattern of a number with such groups.")
    number: str = Field(description="Pattern of a number with a point and without groups.")
    columns: dict[str, RawColumn]


def read_raw_values(path: str) -> RawValues | None:
    """What the dataset says of its files; None if it says nothing, as those of other kinds and tools.

    Raises:
      UserError: if it cannot be understood.
    """
    try:
        return RawValues.model_validate_json(storage.read_text(path))
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise UserError(f"{path}: is not of this version: {error.errors()[0]['msg']}; preprocess again") from None
