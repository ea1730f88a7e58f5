"""The folder that an export or predictions are written to: whose it is, whether it is complete, what is in it.

`_export.json` says it, with "complete": false until all is there; `_SUCCESS` comes last.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from beamfeed.contract import storage
from beamfeed.contract.dataset.layout import DESCRIPTION, SUCCESS
from beamfeed.contract.ending import Ending
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.contract.storage import lock
from beamfeed.contract.verbosity import note

LOCK = "_lock.json"  # only while it is written
Content = Mapping[str, Any]


def write_once(
    out: str, content: Content, write: Callable[[], None], doing: str, ending: Ending, things: str, *, force: bool,
    resumed: str | None = "", added: Callable[[Content], Content] = lambda _: {},
) -> dict[str, Any]:  # fmt: skip
    """Writes a folder, unless it is there already; what did not end is written anew, but for what can be resumed.

    Args:
      out: the folder.
      content: what decides on its files: of two that are equal, the files are.
      write: writes it.
      doing: what the holder of its lock does, as "exporting", for messages.
      ending: of the program.
      things: what is written, as it is told where they are there already.
      force: whether something else that was written so is replaced.
      resumed: a name in the folder, of what an attempt that did not end leaves to the next one of the same content;
        None if that is all.
      added: gives of its description what this is to say beside, also where nothing is to be written.

    Returns:
      its description.

    Raises:
      UserError: if the folder holds something else.
      JobFailed: if it is not complete when all is done.
    """
    _check(out)
    use = lock.Use("--out", f"{doing} to")
    with lock.hold(storage.join(out, LOCK), ending, use):
        if (description := _find(out, content)) is not None:
            note(f"{out} is complete: the same {things}. Nothing to do.")
        else:
            _make_room(out, content, force=force, resumed=resumed)
            write()
            if (description := _find(out, content)) is None:
                raise JobFailed(f"the job ended, but {out} does not hold what it writes; can the workers write there?")
        if more := added(description):
            description |= more
            storage.write_text(storage.join(out, DESCRIPTION), json.dumps(description, indent=1) + "\n")
        return description


def _find(out: str, content: Content) -> dict[str, Any] | None:
    """The description of the folder, if it is complete and of this content."""
    description = read_description(out)
    is_it = description is not None and bool(description.get("complete")) and _is_of(description, content)
    return description if is_it and storage.exists(storage.join(out, SUCCESS)) else None


def _is_of(description: Content, content: Content) -> bool:
    return {key: description.get(key) for key in content} == content


def read_description(out: str) -> dict[str, Any] | None:
    """The description in a folder; None where nothing was written so."""
    try:
        description = json.loads(storage.read_text(storage.join(out, DESCRIPTION)))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return description if isinstance(description, dict) and "to" in description else None


def read_predictions(folder: str, place: str) -> dict[str, Any]:
    """The description of predictions in a folder, which `place` names in messages.

    Raises:
      UserError: if they are not there, or not whole.
    """
    description = read_description(folder)
    if description is None or description["to"] != "predictions" or not description.get("complete"):
        raise UserError(f"{place} holds no complete predictions; `beamfeed predict` writes them")
    return description


def _check(out: str) -> None:
    """Raises UserError where the folder holds what was not written so."""
    if not storage.is_remote(out) and os.path.exists(out) and not os.path.isdir(out):
        raise UserError(f"--out {out}: is a file, it must be a folder")
    names = [name for name in storage.list_folder(out) if name != LOCK]
    if names and read_description(out) is None:
        raise UserError(f"--out {out}: holds something else ({', '.join(names[:3])}); choose another folder")


def _make_room(out: str, content: Content, *, force: bool, resumed: str | None) -> None:
    """Empties the folder of what did not end, or with `force` of anything.

    Raises:
      UserError: if it holds another one, or what is left of another one can be resumed, and there is no `force`.
    """
    description, names = read_description(out), storage.list_folder(out)
    same = description is not None and _is_of(description, content)  # it ended before _SUCCESS
    counts = description is not None and (description.get("complete") or resumed in names)
    if description is not None and counts and not same and not force:
        another = f"{description['to']} of {description.get('name')}"
        raise UserError(f"--out {out}: holds another export ({another}); --force replaces it")
    if description is not None:
        # First, as what is half emptied is not what it was; of another one, nothing is resumed.
        _mark_incomplete(out, content if same else {key: description.get(key) for key in ("to", "name")})
    remaining = (LOCK, DESCRIPTION, resumed) if same else (LOCK, DESCRIPTION)
    if same and resumed is None:
        for path in () if storage.is_remote(out) else Path(out).rglob("*.tmp-*"):  # of a process that was killed
            path.unlink()
    else:
        for name in names:
            if name not in remaining:
                storage.remove_tree(storage.join(out, name))
    _mark_incomplete(out, content)


def _mark_incomplete(out: str, content: Content) -> None:
    storage.remove_file(storage.join(out, SUCCESS))
    storage.write_text(storage.join(out, DESCRIPTION), json.dumps({**content, "complete": False}) + "\n")


@contextmanager
def removed_after(folder: str, ending: Ending) -> Iterator[None]:
    """A folder of what is needed on the way goes before and after, also where this fails or is ended."""
    storage.remove_tree(folder)
    with ending.undoing(partial(storage.remove_tree, folder)):
        try:
            yield
        finally:
            storage.remove_tree(folder)
