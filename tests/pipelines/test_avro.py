"""Jobs on Avro files: the same rows as of Parquet, a broken file costs itself, and init and check know them."""

import contextlib
import io
import json

import fastavro
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from beamfeed.contract.config.load import parse_job
from beamfeed.transforms.suggest.job_file import suggest
from tests.tables import Lake, make_table

SCHEMA = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "row", "type": "string"},
        {"name": "amount", "type": ["null", "float"]},
        {"name": "count", "type": "long"},
        {"name": "kind", "type": ["null", "string"]},
        {"name": "when", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "customer", "type": "long"},
        {"name": "fraud", "type": "long"},
    ],
}
NAMES = [part["name"] for part in SCHEMA["fields"]]


def write_avro(path, table: pd.DataFrame, **options: object) -> None:
    rows = pa.Table.from_pandas(table[NAMES], preserve_index=False).to_pylist()
    with path.open("wb") as file:
        fastavro.writer(file, SCHEMA, rows, **options)


def make_lake(folder) -> Lake:
    lake = Lake(folder)
    lake.job["features"] = {"row": "pass", "amount": "numeric", "kind": "categorical", "when": "date"}
    return lake


def check(job: dict, folder) -> dict:
    """What `beamfeed check` says of a job."""
    from beamfeed.pipelines.check import main

    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["--job", str(folder / "job.yaml"), "--json"]) == 0
    events = map(json.loads, out.getvalue().splitlines())
    return next(event for event in events if event["event"] == "check")


def test_a_table_is_that_of_the_same_rows_in_parquet(tmp_path):
    lakes = [make_lake(tmp_path / name) for name in ("parquet", "avro")]
    for number in range(3):
        table = make_table(150, number)
        pq.write_table(pa.Table.from_pandas(table[NAMES], preserve_index=False), lakes[0].files / f"{number}.parquet")
        write_avro(lakes[1].files / f"{number}.avro", table, codec="deflate", sync_interval=500)
    content = (lakes[1].files / "2.avro").read_bytes()
    (lakes[1].files / "3.avro").write_bytes(content[: len(content) // 2])
    assert [lake.preprocess("limits.max_rejected_fraction=0.5") for lake in lakes] == [0, 0]
    (reject,) = lakes[1].rejects()
    assert reject["asset"] == "3.avro"
    assert "is not in a whole block" in reject["reason"]
    for split in ("train", "eval", "test"):
        rows = [lake.rows(split) for lake in lakes]
        assert rows[0].keys() == rows[1].keys()
        for name, fields in rows[0].items():
            assert {key: str(value) for key, value in fields.items()} == {
                key: str(value) for key, value in rows[1][name].items()
            }
    (lakes[1].files / "3.avro").unlink()
    counts = [check(lake.job, lake.folder)["splits"] for lake in lakes]
    assert counts[0] == counts[1]


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fields = [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "flow", "type": ["null", "double"]},
    ]
    schema = {"type": "record", "name": "Row", "fields": fields}
    for number in range(4):
        rows = [{"at": 1000 * second, "flow": (second * 7 % 11) / 2} for second in range(300)]
        with (tmp_path / f"pump-{number}.avro").open("wb") as file:
            fastavro.writer(file, schema, rows)
    return tmp_path


def test_init_and_check_of_series(fleet):
    source = parse_job(suggest(".").text).source
    assert (source.kind, source.files, source.time.column) == ("timeseries", "*.avro", "at")
    job = yaml.safe_load(suggest(".").text)
    job["output"] = {"path": str(fleet / "data")}
    assert check(job, fleet)["files"] == 4
