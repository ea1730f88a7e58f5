"""Formats of files, by their names; of a packed one by that of what is in it."""

import re
from contextlib import suppress

from beamfeed.contract.config.sources.formats import FORMATS, PACKED, ZIP
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers.zipped import member_of

_LINES = (".jsonl", ".ndjson")
_PACKINGS = {**PACKED, ZIP: "zip"}


def packed_by(path: str) -> str | None:
    """Arrow's name of what a text is compressed with, or zip; None if it is not."""
    return next((name for suffix, name in _PACKINGS.items() if path.lower().endswith(suffix)), None)


def format_of(path: str) -> str:
    """The format of a file; what has no name that is known is taken for a CSV, see `check_suffix`."""
    name = _unpacked(path)
    return next((format_ for format_, spec in FORMATS.items() if name.endswith((*spec.suffixes, *spec.named))), "csv")


def has_types(path: str) -> bool:
    """Whether the columns of a file have types."""
    return not FORMATS[format_of(path)].is_text


def check_suffix(path: str) -> None:
    """Raises BadInput for a file whose suffix no format has; one without any, or with a number for one, may be text."""
    name = _unpacked(path).rpartition("/")[2]
    suffix = re.search(r"[^.](\.[a-z]+)$", name)
    known = [name for format_ in FORMATS.values() for name in (*format_.suffixes, *format_.named, *format_.aliases)]
    if suffix is not None and suffix[1] not in known:
        reason = f"ends in {suffix[1]}, which no format is known by; a text may end in .txt: {' '.join(known)}"
        raise BadInput(path, "file", reason)


def is_named_lines(path: str) -> bool:
    """Whether a file is JSON lines by its name."""
    return _unpacked(path).endswith(_LINES)


def _unpacked(path: str) -> str:
    """The name of a file in small letters; of a packed one that of what is in it."""
    packing = packed_by(path)
    name = path.lower()
    if packing == "zip":
        with suppress(BadInput):  # who opens it says so
            name = member_of(path).lower()
    elif packing:
        name = name.rpartition(".")[0]
    return name
