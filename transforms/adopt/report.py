"""What an adoption came to, as text."""

import json
from typing import Any

from beamfeed.contract import storage
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.text import table

MOST = 10  # rejects that are told
LINES = 40  # fields


def rejected(manifest: Manifest, out: str) -> list[dict[str, Any]]:
    """The shards that were set aside: file, place and reason."""
    if not manifest.counts.rejected_files:
        return []
    lines = storage.read_text(manifest.data_layout(out).rejects).splitlines()
    return [{key: reject[key] for key in ("file", "place", "reason")} for reject in map(json.loads, lines)]


def describe_adoption(manifest: Manifest, out: str) -> list[str]:
    """Fields, splits, notes and what was set aside, a line each."""
    rows = [("field", "dtype", "shape", "role", "in the records")]
    for field in manifest.fields:
        rows.append((field.name, field.dtype, field.shape_text, field.role, _describe(field)))
    hidden = [f"... {len(rows) - 1 - LINES} more fields"] if len(rows) - 1 > LINES else []
    lines = [f"{out}: {manifest.name}, {manifest.counts.rows_read:,} rows in {manifest.counts.files:,} files", ""]
    lines += [*table(rows[: LINES + 1], left=5), *hidden, ""]
    heads = [("split", "rows", "files", "bytes")]
    heads += [
        (name, f"{info.windows:,}", f"{len(info.shards):,}", f"{info.bytes:,}")
        for name, info in manifest.splits.items()
    ]
    lines += [*table(heads, left=4), "", *(f"- {note}" for note in manifest.notes)]
    aside = rejected(manifest, out)
    lines += [f"set aside: {reject['file']}: {reject['place']}: {reject['reason']}" for reject in aside[:MOST]]
    if len(aside) > MOST:
        lines.append(f"and {len(aside) - MOST:,} more: {manifest.data_layout(out).rejects}")
    return lines


def _describe(field: Any) -> str:
    parts = [field.in_records if field.feature else ""]
    parts += [field.content] if field.content else []
    parts += [f"{len(field.classes):,} classes"] if field.classes else []
    parts += [f"numbers below {field.sizes[0]:,}"] if field.sizes else []
    parts += ["a feature list"] if field.stored == "steps" else []
    return ", ".join(part for part in parts if part)
