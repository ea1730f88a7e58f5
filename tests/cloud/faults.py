"""Counts the requests that reach the bucket, and spoils those that a test asks to spoil."""

import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cloud.exchange import Request

How = Literal["503", "429", "cut"]  # not now; too much; a body that ends early


@dataclass
class Fault:
    """Spoils the next `times` requests of a kind: 503, 429, or a connection that breaks in the middle of a body."""

    kind: str
    how: How
    times: int
    match: str


@dataclass(frozen=True)
class Counts:
    """Requests by kind: list, read, write, copy, delete, metadata; and the bytes of reads' and writes' bodies."""

    requests: Counter[str]
    read_bytes: int
    written_bytes: int
    largest_read: int
    faults: int

    def __str__(self) -> str:
        kinds = ("list", "metadata", "read", "write", "copy", "delete")
        return ", ".join(f"{kind} {self.requests[kind]}" for kind in kinds) + (
            f"; read {self.read_bytes:,} bytes, written {self.written_bytes:,}"
        )


class Ledger:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self.reset()

    def reset(self) -> None:
        with self._lock:
            self._faults.clear()
            self.seen: list[str] = []
            self._requests: Counter[str] = Counter()
            self._read = self._written = self._largest = self._spoiled = 0

    def inject(self, kind: str, how: How, times: int, match: str) -> None:
        with self._lock:
            self._faults.append(Fault(kind, how, times, match))

    def counts(self) -> Counts:
        with self._lock:
            return Counts(self._requests.copy(), self._read, self._written, self._largest, self._spoiled)

    def enter(self, request: Request) -> How | None:
        """Counts a request; returns what is to go wrong with it."""
        with self._lock:
            self._requests[request.kind] += 1
            self.seen.append(f"{request.method} {request.target} {request.headers.get('range', '')}".rstrip())
            if request.kind == "write":
                self._written += len(request.body)
            for fault in self._faults:
                if fault.times > 0 and fault.kind == request.kind and re.search(fault.match, request.target):
                    fault.times -= 1
                    self._spoiled += 1
                    return fault.how
        return None

    def counter(self, request: Request) -> Callable[[int], None]:
        """What to tell of each part of a response's body that is sent."""
        total = 0

        def sent(size: int) -> None:
            nonlocal total
            total += size
            with self._lock:
                self._read += size
                self._largest = max(self._largest, total)

        return sent if request.kind == "read" else lambda size: None
