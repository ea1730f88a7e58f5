"""What a job takes, as a dry run and the question before a bill tell it."""

import os
import pty
import subprocess
import sys
from dataclasses import replace

import pytest

from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import FileStat
from beamfeed.launcher.backends.dataflow.section import DataflowSection
from beamfeed.launcher.backends.vertex.section import VertexSection
from beamfeed.launcher.estimate import CARE, PRICES, RATES, estimate_preprocess, estimate_train, kind_of, read_prices
from beamfeed.launcher.stage import Stage

LOCAL = Stage("preprocess", (), "local", 1, "", False, "")
CLOUD = {"project": "a-project", "region": "europe-west1", "image": "i"}
DATAFLOW = replace(LOCAL, backend="dataflow", section=DataflowSection(**CLOUD, temp_location="gs://temp"))
VERTEX = Stage("train", (), "vertex", 4, "", False, "", section=VertexSection(**CLOUD, machine_type="g2-standard-8"))


def test_files_cost_by_their_kind():
    files = [FileStat("a.parquet", int(RATES["parquet"] * 1800), 0), FileStat("b.CSV.gz", int(RATES["csv"] * 1800), 0)]
    found = estimate_preprocess(LOCAL, files, PRICES)
    assert (found.files, found.hours, found.dollars) == (2, CARE, None)
    assert found.words() == f"2 files, {found.bytes / 1e6:,.1f} MB, about 2.0 core hours"
    kinds = {"x.jpg": "image", "gs://b/x.ndjson": "json", "x.tsv": "csv", "x": "csv", "x.zarr/zarr.json": "parquet"}
    assert {path: kind_of(path) for path in kinds} == kinds


@pytest.mark.parametrize(("machine", "gigabytes"), [(None, 4), ("n2-highmem-8", 8), ("e2-highcpu-4", 1)])
def test_dataflow_is_paid_by_core_and_memory(machine, gigabytes):
    stage = replace(DATAFLOW, section=DATAFLOW.section.model_copy(update={"machine_type": machine}))
    files = [FileStat("a.parquet", int(RATES["parquet"] * 3600), 0)]
    found = estimate_preprocess(stage, files, {"date": "2026-01", "dataflow": {"core": 1.0, "gb": 0.5}})
    assert found.dollars == pytest.approx(CARE * (1 + 0.5 * gigabytes))
    assert found.words().endswith(f"about ${found.dollars:.2f} (prices of 2026-01)")


def test_training_is_known_from_steps_that_were_taken():
    prices = {"date": "2026-01", "vertex": {"g2-standard-8": 1.5}}
    assert estimate_train(VERTEX, 1000, None, prices).words() == "1,000 steps"
    found = estimate_train(VERTEX, 1000, 3.6, prices)
    assert (found.hours, found.dollars) == (pytest.approx(4), pytest.approx(6))
    assert estimate_train(VERTEX, 1000, 3.6, PRICES).dollars is None  # of that machine nobody has told the price


def test_prices_of_the_user(tmp_path, monkeypatch):
    path = tmp_path / "prices.yaml"
    path.write_text("date: 2026-01\nslurm: {core: 0.02, gpu: 1}\n")
    assert read_prices(str(path))["slurm"] == {"core": 0.02, "gpu": 1}
    monkeypatch.setenv("BEAMFEED_PRICES", str(path))
    assert "slurm" in read_prices()
    for text, told in [
        ("slurm: {core: 1}", "must be a mapping with date"),
        ("date: 1\nnomad: {core: 1}", "nomad: is no backend; there are local,"),
        ("date: 1\nslurm: {core: much}", "slurm: must be a mapping to dollars an hour"),
        ("{", "cannot be read as prices"),
    ]:
        path.write_text(text)
        with pytest.raises(UserError, match=told):
            read_prices(str(path))
    with pytest.raises(UserError, match="cannot be read as prices: No such file"):
        read_prices(str(tmp_path / "none.yaml"))


JOB = """
name: small
source: {{kind: timeseries, files: {folder}/in/*.csv, time: {{column: t}}, features: [a]}}
windows: {{length: 8}}
output: {{path: gs://bucket/data}}
launch: {{preprocess: {{backend: dataflow, dataflow: {{
  project: a-project, region: europe-west1, image: i, temp_location: gs://temp/t}}}}}}
"""
# Nothing of it reaches a cloud: what would be asked for there is taken away.
ASKS = """
import sys
from beamfeed.launcher import cli, commands, plan
from beamfeed.launcher.backends.dataflow.backend import DataflowBackend
DataflowBackend.check = lambda *_: None
plan._find_replaceable = lambda job: (None, None)
plan.read_complete = lambda *_: None
commands.run_plan = lambda *_: print("started", flush=True) or (1, {})
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("answer", "more", "code"), [("y\n", [], 1), ("n\n", [], 2), ("\n", [], 2), ("", ["--yes"], 1)]
)
def test_a_question_comes_before_a_bill(tmp_path, answer, more, code):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.csv").write_text("t,a\n1,2\n")
    job = tmp_path / "job.yaml"
    job.write_text(JOB.format(folder=tmp_path))
    keyboard, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", ASKS, "preprocess", str(job), *more],
        stdin=terminal, stdout=subprocess.PIPE, stderr=terminal, text=True,
    )  # fmt: skip
    os.write(keyboard, answer.encode())
    out, _ = process.communicate(timeout=60)
    said = os.read(keyboard, 10_000).decode() if not more else ""
    os.close(terminal)
    os.close(keyboard)
    assert process.returncode == code
    assert ("started" in out) == (code == 1)
    if not more:
        assert "preprocess: 1 file, 0.0 MB, less than 0.1 core hours, less than $0.01 (prices of 2025-06)" in said
        assert ("nothing was started" in said) == (code == 2)
