"""Rows of a table, read as a job reads them, but without a pipeline."""

from pathlib import Path

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.transforms.sources.table.plan import TableAsset, cut_units, scan_file
from beamfeed.transforms.sources.table.resolve import resolve_schema
from beamfeed.transforms.sources.table.rows import read_unit


def read_rows(path: Path, features: dict, **source: object) -> tuple[list[tuple], dict[int, tuple[str, str]]]:
    """The rows of a table, and by number those that are set aside: where and why."""
    job = Job.model_validate(
        {
            "name": "test",
            "source": {"kind": "table", "files": str(path), **source},
            "features": features,
            "output": {"path": "/nowhere"},
        }
    )
    stat = storage.stat(str(path))
    schema = resolve_schema(job, [stat])
    piece = scan_file(stat, path.name, schema, "")
    rows: list[tuple] = []
    wrong: dict[int, tuple[str, str]] = {}
    for unit in cut_units(TableAsset(path.name, (piece,), None), len(schema.columns)):
        for found in read_unit(unit, schema):
            assert found.first == len(rows)
            wrong |= {
                found.first + row: (found.places.get(row, f"row {found.first + row}"), reason)
                for row, reason in found.wrong.items()
            }
            rows += zip(*(column.to_pylist() for column in found.columns.columns), strict=True)
    return rows, wrong
