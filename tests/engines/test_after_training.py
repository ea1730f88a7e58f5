"""What comes after training, on Flink, Spark and Prism: the rows of a local run."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.dataset as ds
import pytest
from engines.beam_engines import MASTERS, job_server, prism

from tests.fleets import Fleet
from tests.predicted import make_predicted_fleet

pytestmark = pytest.mark.engines


@pytest.fixture(scope="module")
def fleet(tmp_path_factory) -> Fleet:
    return make_predicted_fleet(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module", params=["flink", "spark", "prism"])
def options(request, tmp_path_factory):
    """Options of Beam that name an engine."""
    if request.param == "prism":
        yield ["--runner=PrismRunner", f"--prism_location={prism()}"]
        return
    with job_server(request.param, tmp_path_factory.mktemp(request.param), MASTERS[request.param]) as address:
        yield ["--runner=PortableRunner", f"--job_endpoint={address}", "--environment_type=LOOPBACK"]


def beamfeed(*arguments: object) -> tuple[int, str]:
    """The exit code, and what it said."""
    command = [sys.executable, "-m", "beamfeed.launcher.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    return done.returncode, done.stdout + done.stderr


def rows_of(folder: Path, files: str = "**/*.parquet") -> pd.DataFrame:
    table = ds.dataset(sorted(map(str, folder.glob(files))), format="parquet").to_table().to_pandas()
    return table.sort_values(["asset", "start"], ignore_index=True)


@pytest.mark.parametrize("new", [False, True])
def test_predictions(fleet, options, tmp_path, new):
    files = ["--files", fleet.folder / "new"] if new else []
    out = tmp_path / "out"
    code, said = beamfeed("predict", fleet.folder / "job.yaml", *files, "--out", out, "--", *options)
    assert code == 0, said
    local = fleet.folder / "predicted" if new else Path(fleet.job["train"]["workdir"], "predictions")
    pd.testing.assert_frame_equal(rows_of(out), rows_of(local), rtol=0, atol=1e-6)


def test_drift(fleet, options, tmp_path):
    compared = ["compare", fleet.folder / "job.yaml", "--files", fleet.folder / "new", "--json"]
    events = []
    for engine in ([], ["--", *options]):
        code, said = beamfeed(*compared, *(["--out", tmp_path / "drift.parquet"] if engine else []), *engine)
        assert code in (0, 3), said
        (event,) = [json.loads(line) for line in said.splitlines() if line.startswith('{"event": "compare"')]
        events.append({name: value for name, value in event.items() if name != "time"})
    assert events[0] == events[1]


def test_a_model_of_each(fleet, options, tmp_path):
    job = [fleet.folder / "job.yaml", "--set", "train.feed.batch_size=16", "--no-models"]
    tables = []
    for engine in (["--direct_num_workers=1"], options):
        out = tmp_path / f"each{len(tables)}"
        code, said = beamfeed("train-each", *job, "--out", out, "--", *engine)
        assert code == 0, said
        table = pd.read_parquet(out / "results.parquet").sort_values("group", ignore_index=True)
        tables.append(table.drop(columns=[name for name in table.columns if "seconds" in name]))
    pd.testing.assert_frame_equal(*tables)
