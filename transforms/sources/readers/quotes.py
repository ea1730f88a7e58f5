"""Values in quotes, which may hold ends of lines, and comments, which are none where they stand in one."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Quotes:
    """What stands around values that may hold ends of lines.

    Attributes:
      quote: the character; it begins a value, or is one of its characters.
      delimiter: between values.
    """

    quote: str
    delimiter: str

    @property
    def pattern(self) -> re.Pattern[bytes]:
        """A value in quotes, or the beginning of one that does not end."""
        return re.compile(self._value)

    @property
    def _value(self) -> bytes:
        quote, delimiter = re.escape(self.quote.encode()), re.escape(self.delimiter.encode())
        return rb"(?:\A|(?<=[\n%b]))%b(?:[^%b]|%b%b)*(?:%b|\Z)" % (delimiter, *[quote] * 5)


def comment_lines(mark: str, quotes: Quotes | None) -> re.Pattern[bytes]:
    """Finds comments, its group `comment`, and beside them whole values in quotes, in which lines are none."""
    comment = rb"(?m:^)(?P<comment>[ \t]*%b[^\n]*)" % re.escape(mark.encode())
    return re.compile(comment if quotes is None else comment + b"|" + quotes._value)
