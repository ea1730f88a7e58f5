"""What this process prints on stderr while runs go on: shown, and copied to their logs."""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

Copy = Callable[[bytes], object]

_changing = threading.Lock()


class CopiedText:
    """Stands for stderr, once for all runs of this process, as they may begin and end in any order.

    Attributes:
      stream: stderr.
      copies: what takes the text, each behind the thread of its run.
    """

    def __init__(self, stream: TextIO):
        self.stream = stream
        self.copies: tuple[tuple[int, Copy], ...] = ()

    def write(self, text: str) -> int:
        """Shows a text, and copies it for the run of this thread; from any other thread it may be of each run."""
        copies, here = self.copies, threading.get_ident()
        own = [copy for thread, copy in copies if thread == here]
        for copy in own or [copy for _, copy in copies]:
            copy(text.encode("utf-8", "backslashreplace"))
        return self.stream.write(text)

    def writelines(self, texts: Iterable[str]) -> None:
        """Each as `write` does."""
        for text in texts:
            self.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def copying_stderr(copy: Copy) -> Iterator[None]:
    """While the body runs, `copy` takes what is printed on stderr, too."""
    entry = (threading.get_ident(), copy)
    with _changing:
        stderr = sys.stderr
        stand_in = stderr if isinstance(stderr, CopiedText) else CopiedText(stderr)
        stand_in.copies += (entry,)
        sys.stderr = stand_in
    try:
        yield
    finally:
        with _changing:
            stand_in.copies = tuple(one for one in stand_in.copies if one is not entry)
            if not stand_in.copies and sys.stderr is stand_in:
                sys.stderr = stand_in.stream


def shown_stderr() -> TextIO:
    """Stderr, where nothing is copied of what is printed."""
    return sys.stderr.stream if isinstance(sys.stderr, CopiedText) else sys.stderr
