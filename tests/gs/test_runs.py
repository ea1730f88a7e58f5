"""The record of a run in a bucket: from another machine it is looked at, read, ended and gone on with."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FAR = Path(__file__).parents[1] / "launcher" / "runs" / "far.py"
JOB = """
name: small
source: {{kind: timeseries, files: {folder}/*.csv, time: {{column: t}}, features: ["a"]}}
windows: {{length: 8}}
output: {{path: {url}/data}}
train: {{model: {{name: recurrent_autoencoder}}, workdir: {url}/model}}
"""


def test_from_another_machine(gs, tmp_path):
    """While the bucket refuses some requests."""
    (tmp_path / "one.csv").write_text("t,a\n1,2\n")
    (tmp_path / "job.yaml").write_text(JOB.format(folder=tmp_path, url=gs.url()))
    (tmp_path / "preprocess.py").write_text("print('prepared')\n")
    (tmp_path / "train.py").write_text("import time\nprint('it goes on', flush=True)\nwhile True: time.sleep(1)\n")
    command = [sys.executable, str(FAR), str(tmp_path)]
    env = {**gs.env, "XDG_STATE_HOME": str(tmp_path / "state")}
    for kind in ("list", "read", "write", "metadata", "delete"):
        gs.inject(kind, "503", match="runs")
        gs.inject(kind, "429", match="runs")
    launcher = subprocess.Popen(
        [*command, "run", str(tmp_path / "job.yaml")],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def elsewhere(*arguments):
        return gs.python(*command[1:], *arguments, FAR_HOST="another", XDG_STATE_HOME=str(tmp_path / "nothing"))

    try:
        end = time.monotonic() + 60
        while not any(
            json.loads(gs.read(f"model/runs/{name}"))["stages"][1]["state"] == "running"
            for name in gs.list("model/runs")
            if name.endswith(".json")
        ):
            assert time.monotonic() < end
            assert launcher.poll() is None
            time.sleep(0.05)
        while (
            "running" not in (told := elsewhere("status", gs.url("model")).stdout) or "train      running" not in told
        ):
            assert time.monotonic() < end, told
        cancelled = elsewhere("cancel", gs.url("model"))
        assert cancelled.returncode == 0, cancelled.stderr
        _, errors = launcher.communicate(timeout=60)
    finally:
        launcher.kill()
        launcher.communicate()
    assert launcher.returncode == 130, errors
    (run,) = [json.loads(line) for line in elsewhere("runs", gs.url("model"), "--json").stdout.splitlines()]
    assert run["state"] == "cancelled"
    assert "it goes on" in elsewhere("logs", gs.url("model")).stdout
    (tmp_path / "train.py").write_text("print('trained')\n")
    resumed = elsewhere("resume", gs.url("model", run["id"]))
    assert resumed.returncode == 0, resumed.stderr
    log = elsewhere("logs", gs.url("model")).stdout
    assert log.index("it goes on") < log.index("trained")
    assert gs.counts().faults == 10
    assert sorted(name.rpartition(".")[2] for name in gs.list("model/runs")) == ["json", "log", "yaml"]
