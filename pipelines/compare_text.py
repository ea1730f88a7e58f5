"""A comparison as people read it."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from beamfeed.contract.text import counted

LIST_PART = re.compile(r"(.+)\[\d+\]")  # latent[3]
_PARTS = 3  # of a list that are named
_CHANGES = 3  # of a column are told; the table has all
_WIDEST = 40
Row = Mapping[str, Any]


def to_lines(rows: Sequence[Row], show: int, threshold: float) -> list[str]:
    """The columns that drift most, one a line, and in a last line how many there are."""
    joined = join_lists(rows)
    compared = [row for row in joined if row["psi"] is not None or row["drift"]]
    shown = [*joined[:show], *(row for row in joined[show:] if row["psi"] is None and row["changes"])]
    width = min(_WIDEST, max((len(row["column"]) for row in shown), default=6))
    lines = [f"{'':5}  {'psi':>6}  {'noise':>6}  {'column':{width}}  what changed"] if shown else []
    for row in shown:
        numbers = (f"{'-':>6}" if row[name] is None else f"{row[name]:6.3f}" for name in ("psi", "noise"))
        mark = "DRIFT" if row["drift"] else ""
        lines.append(
            "  ".join(
                [f"{mark:5}", *numbers, f"{row['column']:{width}}", "; ".join(row["changes"][:_CHANGES])]
            ).rstrip()
        )
    if len(joined) > len(shown):
        lines.append(f"{'':5}  and {counted(len(joined) - len(shown), 'column')} that drift less")
    over = sum(row["drift"] for row in joined)
    lines.append(f"{over} of {counted(len(compared), 'column')} drifted: a psi from {threshold:g} on, and above noise")
    return lines


def join_lists(rows: Sequence[Row]) -> list[Row]:
    """Rows in order, where the numbers of a list, such as a latent vector, are one row at the place of the largest."""
    families: dict[str, list[Row]] = {}
    for row in rows:
        match = LIST_PART.fullmatch(row["column"])
        families.setdefault(match[1] if match else row["column"], []).append(row)
    return [_join(name, members) for name, members in families.items()]


def _join(name: str, members: Sequence[Row]) -> Row:
    first = members[0]
    compared = [row for row in members if row["psi"] is not None]
    if len(members) == 1 or not compared:
        return {**first, "column": name if len(members) > 1 else first["column"]}
    over = [row for row in compared if row["drift"]]
    parts = ", ".join(f"{row['column'][len(name) :]} {row['psi']:.2f}" for row in (over or compared)[:_PARTS])
    mean = sum(row["psi"] for row in compared) / len(compared)
    text = f"{len(over)} of {len(members)} drifted ({parts}); mean psi {mean:.2f}"
    return {**first, "column": name, "changes": [text]}
