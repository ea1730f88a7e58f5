"""Numbers and tables of the report, as Markdown."""

from collections.abc import Iterator, Sequence

from alternatives import OURS


def ran(results: dict) -> dict[str, dict]:
    """The entries that have figures."""
    return {name: entry for name, entry in results.items() if "failed" not in entry and "skipped" not in entry}


def left_out(results: dict) -> Iterator[str]:
    for name, entry in results.items():
        reason = entry.get("failed") or entry.get("skipped")
        if reason:
            yield f"- {name}: {' '.join(reason.split())}"


def number(value: float | None) -> str:
    """Three digits or so: 0.43, 5.1, 82, 12,345."""
    if value is None:
        return "-"
    return f"{value:,.2f}" if value < 1 else f"{value:,.1f}" if value < 10 else f"{value:,.0f}"


def times(value: float | None, base: float | None) -> str:
    return "-" if value is None or not base else f"{number(value / base)}x"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"| --- |{' ---: |' * (len(header) - 1)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def bold(name: str) -> str:
    return f"**{name}**" if name == OURS else name
