"""Variables of the environment in the values of a job file: `${NAME}`, `${NAME:-default}`; `$$` is a `$`."""

import os
import re
from typing import Any

from beamfeed.contract.errors import redact, redacted

JOB_DIR = "JOB_DIR"  # the folder of the job file, in the place of a variable of the environment
_VARIABLE = re.compile(r"\$\$|\$\{([^{}\n]*)\}")
_NAMED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_OPEN, _CLOSE = "\ue000", "\ue001"  # of private use: no text has them
_MARK = re.compile(rf"\$\$|{_OPEN}(\d+){_CLOSE}")
_OPENED = re.compile(r"(?<!\$)(?:\$\$)*\$\{")  # what was taken for no variable
_SECRET = re.compile(r"(?i)secret|passw|credential|private|api_?key|(^|_)(auth|key|token)(_|$)|_pwd$")
_SHORTEST = 6  # letters of a secret: shorter ones are parts of words


class Variables:
    """The variables of one file.

    YAML takes braces for mappings. So a text is parsed with something else in their place, and its values are
    filled in afterwards: what a variable holds is never taken for YAML of several values.

    Args:
      job_dir: what `${JOB_DIR}` stands for.
    """

    def __init__(self, job_dir: str):
        self._known = {**os.environ, JOB_DIR: job_dir}
        self._written: list[str] = []

    def protect(self, text: str) -> str:
        """The text of a file with a mark for each `${...}`, in which YAML sees no braces."""

        def keep(match: re.Match[str]) -> str:
            # From a name in quotes to a brace in a comment there may be no variable.
            if match[1] is None or (not _NAMED.fullmatch(match[1]) and set(match[1]) & set("'\"#")):
                return match[0]
            self._written.append(match[1])
            return f"{_OPEN}{len(self._written) - 1}{_CLOSE}"

        return _VARIABLE.sub(keep, text)

    def restore(self, text: str) -> str:
        """A part of a protected text as it was written."""
        return _MARK.sub(lambda match: match[0] if match[1] is None else f"${{{self._written[int(match[1])]}}}", text)

    def holds(self, text: str) -> bool:
        """Whether there is something to fill in."""
        return _MARK.search(text) is not None or _OPENED.search(text) is not None

    def fill(self, text: str) -> str:
        """A value of a protected text, filled in.

        Raises:
          ValueError: if a variable is not set, or is none.
        """
        filled = _MARK.sub(lambda match: "$" if match[1] is None else self._value(self._written[int(match[1])]), text)
        if _OPENED.search(text):
            raise ValueError("holds ${ without a name and }; a variable cannot stand in another one; $${ is the text")
        return filled

    def _value(self, written: str) -> str:
        named = _NAMED.fullmatch(written)
        if named is None:
            raise ValueError(f"${{{written}}} names no variable; $${{{written}}} is the text itself")
        name, default = named.groups()
        value = self._known.get(name)
        if value and _SECRET.search(name) and len(value) >= _SHORTEST:
            redact(name, value)
        if default is not None:
            value = value or default
        if value is None:
            raise ValueError(f"${{{name}}} is not set in the environment; set it, or write ${{{name}:-default}}")
        return value


def escaped(value: Any, *, redact_secrets: bool = False) -> Any:
    """A value of a job as a job file has to write it, so that nothing in it is taken for a variable.

    Args:
      value: of the job.
      redact_secrets: whether a secret that a variable held is that variable again.
    """
    if isinstance(value, dict):
        return {key: escaped(item, redact_secrets=redact_secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [escaped(item, redact_secrets=redact_secrets) for item in value]
    if not isinstance(value, str):
        return value
    written = value.replace("$", "$$")
    return redacted(written, escaped=True) if redact_secrets else written
