"""What `--json` prints: an object a line on stdout. docs/terminal.md says what its keys mean; they stay."""

import json
from datetime import UTC, datetime
from typing import Any


def emit_event(kind: str, /, **values: Any) -> None:
    """Writes one event: `event` says which kind, `time` when (UTC)."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    print(json.dumps({"event": kind, "time": now, **values}, default=str), flush=True)


def emit_error(message: str, code: int) -> None:
    """Writes why a command cannot go on, and its exit code."""
    emit_event("error", message=message, code=code)
