"""A model of each group: the same as training on the group alone, whoever fails, and however often it is begun."""

import copy
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
import yaml

from beamfeed.contract.dataset.layout import EachLayout
from beamfeed.pipelines.train_each import main
from beamfeed.trainer.main import main as train
from beamfeed.transforms.groups import steps
from tests.exports import in_same_process
from tests.fleets import Fleet, make_table
from tests.tables import Lake
from tests.tables import make_table as make_rows

GOOD = ("a", "b/ü", "..")
RUNNER = ("--", "--runner=FnApiRunner")
VARIABLES = "saved_model/variables/variables.data-00000-of-00001"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory) -> Fleet:
    """Three good assets, one whose numbers are too large to train on, and one that has too few windows."""
    fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    for number, name in enumerate((*GOOD, "huge", "tiny")):
        rows = 30 if name == "tiny" else 200 + 40 * number
        table = make_table(rows, number, name=np.full(rows, name))
        if name == "huge":
            table = table.set_column(1, "x0", [np.full(rows, 1e30, "f4")])
        fleet.write(f"{number}.parquet", table)
    fleet.job["source"]["asset"] = {"column": "name"}
    fleet.job["prepare"] = {"scale": {"how": "none"}}
    fleet.job["split"] = {"by": "time", "train": 0.6, "eval": 0.2, "test": 0.2}
    fleet.job["train"] |= {
        "model": {"name": "dense_autoencoder", "units": [4], "latent": 2},
        "feed": {"batch_size": 16},
        "epochs": 2,
    }
    assert fleet.preprocess() == 0
    return fleet


def each(folder: Path, out: Path, *options: str, workers: int = 2) -> int:
    arguments = ["--job", str(folder / "job.yaml"), "--out", str(out), *options]
    return main([*arguments, *RUNNER, f"--direct_num_workers={workers}"])


@pytest.fixture(scope="module")
def out(fleet) -> Path:
    out = fleet.folder / "each"
    assert each(fleet.folder, out) == 0
    return out


def models(out: Path) -> dict[str, bytes]:
    return {name: Path(EachLayout(str(out)).group(name), VARIABLES).read_bytes() for name in GOOD}


@pytest.mark.slow
def test_a_row_and_a_model_of_each_good_group_and_a_reason_of_each_other(fleet, out):
    rows = pq.read_table(out / "results.parquet").to_pylist()
    assert [row["group"] for row in rows] == sorted(GOOD)
    for row in rows:
        for split in ("train", "eval", "test"):
            assert row[f"{split}_windows"] == len(fleet.windows(split)[row["group"]])
        assert (row["epochs"], row["steps"]) == (2, 2 * (row["train_windows"] // 16))
        assert row["best_split"] == "eval"
        model = tf.saved_model.load(out / row["model"])
        windows = np.stack([*fleet.windows("test")[row["group"]].values()])
        said = model.signatures["preprocessed"](windows=tf.constant(windows))["reconstruction"]
        assert row["test_loss"] == pytest.approx(np.square(said - windows).mean(), rel=1e-4)
    assert {path.name for path in (out / "models").iterdir()} == {"a", "b%2F%C3%BC", "%2E%2E"}
    huge, tiny = map(json.loads, (out / "_rejects.jsonl").read_text().splitlines())
    assert (huge["group"], tiny["group"]) == ("huge", "tiny")
    assert huge["reason"].startswith("the norm of the gradients is inf in epoch 1, by step 1; try a lower")
    assert tiny["reason"] == "6 windows in the split train, fewer than one batch of 16 (train.feed.batch_size)"
    assert (out / "_SUCCESS").exists()


@pytest.mark.slow
def test_what_is_complete_is_not_trained_again_and_another_one_is_kept(fleet, out, capsys):
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    assert each(fleet.folder, out) == 0
    assert "is complete: the same models. Nothing to do." in capsys.readouterr().err
    assert each(fleet.folder, out, "--set", "train.epochs=3") == 2
    assert "holds another export (models of test); --force replaces it" in capsys.readouterr().err
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_too_many_that_are_too_small_end_it_before_anything_is_trained(fleet, tmp_path, capsys):
    assert each(fleet.folder, tmp_path / "out", "--set", "limits.max_rejected_fraction=0.1") == 1
    told = capsys.readouterr().err
    assert "1 of 5 groups were set aside, limits.max_rejected_fraction is 10.0%; such as tiny: 6 windows" in told
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"_export.json", "_rejects.jsonl"}


def test_groups_that_no_split_trains_on_are_told(fleet, tmp_path, capsys):
    fleet = copy.copy(fleet)
    fleet.folder, fleet.output = tmp_path, tmp_path / "data"
    output, split = {"path": str(fleet.output)}, {"by": "asset", "seed": 20}
    fleet.job = fleet.job | {"output": output, "split": split}
    assert fleet.preprocess() == 0
    assert each(fleet.folder, tmp_path / "out", "--set", "limits.max_rejected_fraction=0") == 1
    told = capsys.readouterr().err
    assert "no window in the split train; a split by time gives each group something to train on (split.by)" in told


@pytest.mark.slow
def test_who_gives_up_early_keeps_those_that_are_too_small(fleet, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(steps, "LEAST_FAILED", 1)
    options = ["--set", "train.optimizer.learning_rate=1.0e+30", "--set", "limits.max_rejected_assets=1"]
    assert each(fleet.folder, tmp_path / "out", *options, "--no-models", workers=1) == 1
    assert "2 of 5 groups were set aside, limits.max_rejected_assets is 1; such as" in capsys.readouterr().err
    lines = [json.loads(line) for line in (tmp_path / "out" / "_rejects.jsonl").read_text().splitlines()]
    assert len(lines) == 2  # nothing was trained after the first that failed
    assert lines[1]["group"] == "tiny"
    assert lines[0]["reason"].startswith("the ")


@pytest.mark.parametrize(
    ("option", "line"),
    [
        (["--by", "assets"], r"--by assets: dataset test has no such key or partition; did you mean 'asset'\?"),
        (["--set", "train.init={from: nowhere}"], "nowhere is neither the train.workdir of a finished run"),
    ],
)
def test_a_mistake_is_a_line(fleet, tmp_path, capsys, option, line):
    assert each(fleet.folder, tmp_path / "out", *option) == 2
    assert re.search(line, capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def trainers_of(folder: Path) -> list[int]:
    """Processes that train in this folder of temporary files."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text().split("\0")
        except OSError:
            continue
        if "beamfeed.trainer.one_by_one" in words and any(word.startswith(str(folder)) for word in words):
            found.append(int(path.parent.name))
    return found


def wait_until(is_true, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
def test_killed_and_resumed_the_models_are_the_same(fleet, out, tmp_path):
    """With one worker instead of two; what was there before the kill is not trained again."""
    again, scratch = tmp_path / "again", tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "beamfeed.pipelines.train_each", "--job", str(fleet.folder / "job.yaml")]
    process = subprocess.Popen(
        [*command, "--out", str(again), *RUNNER, "--direct_num_workers=1"], env=os.environ | {"TMPDIR": str(scratch)}
    )
    wait_until(lambda: process.poll() is not None or list(again.glob("models/*/result.json")))
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: not trainers_of(scratch))
    assert not list(scratch.glob("beamfeed-each-*"))
    first = {path: path.stat().st_mtime_ns for path in again.glob("models/*/result.json")}
    assert 0 < len(first) < len(GOOD)
    assert not (again / "_SUCCESS").exists()
    assert each(fleet.folder, again, workers=1) == 0
    assert first == {path: path.stat().st_mtime_ns for path in first}
    assert models(again) == models(out)


def simulated(folder: Path, assets: int) -> Path:
    """The job file of a dataset of simulated pumps."""
    make = [sys.executable, str(Path(__file__).parents[2] / "examples" / "make_fleet.py"), "--rows", "600"]
    subprocess.run([*make, "--out", str(folder / "fleet"), "--assets", str(assets)], check=True)
    fleet = Fleet.__new__(Fleet)
    fleet.folder, fleet.files, fleet.output = folder, folder / "fleet", folder / "data"
    fleet.job = {
        "name": "pumps",
        "source": {
            "kind": "timeseries", "files": str(fleet.files / "*.parquet"), "time": {"column": "timestamp"},
            "features": ["*_bar", "flow_m3h", "power_kw", "bearing_c"],
        },
        "prepare": {"missing": {"fill": "linear", "limit": 5}, "max_gap": "5s"},
        "windows": {"length": 8, "stride": 4},
        "split": {"by": "rows", "train": 0.6, "eval": 0.2, "test": 0.2},
        "output": {"path": str(fleet.output)},
        "train": {
            "model": {"name": "dense_autoencoder", "units": [8], "latent": 2}, "feed": {"batch_size": 16},
            "epochs": 2, "review": {"baselines": "none"}, "workdir": str(folder / "model"),
        },
    }  # fmt: skip
    assert fleet.preprocess() == 0
    return folder / "job.yaml"


def memory_of(pid: int) -> int:
    """Megabytes that a process holds; 0 of one that is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return int(match[1]) >> 10 if (match := re.search(r"VmRSS:\s+(\d+)", status)) else 0


@pytest.mark.long
def test_a_hundred_pumps_killed_once_and_resumed_in_flat_memory(tmp_path):
    groups, scratch = 100, tmp_path / "scratch"
    scratch.mkdir()
    job, out = simulated(tmp_path, groups), tmp_path / "out"
    command = [sys.executable, "-m", "beamfeed.pipelines.train_each", "--job", str(job), "--out", str(out), *RUNNER]

    def done() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in out.glob("models/*/result.json")}

    started = time.monotonic()
    process = subprocess.Popen(command, env=os.environ | {"TMPDIR": str(scratch)})
    wait_until(lambda: process.poll() is not None or len(done()) >= groups // 4, 1800)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: not trainers_of(scratch))
    first = done()
    assert groups // 4 <= len(first) < groups
    process = subprocess.Popen(command, env=os.environ | {"TMPDIR": str(scratch)})
    held: dict[int, list[tuple[int, int]]] = {}  # by trainer: groups that were done, and megabytes
    while process.poll() is None:
        for trainer in trainers_of(scratch):
            held.setdefault(trainer, []).append((len(done()), memory_of(trainer)))
        time.sleep(1)
    assert process.returncode == 0
    assert first.items() <= done().items()
    table = pq.read_table(out / "results.parquet")
    assert len(set(table["group"].to_pylist())) == groups == len(table)
    assert np.isfinite(table["test_loss"].to_numpy()).all()
    assert not list(scratch.glob("beamfeed-each-*"))
    print(f"{60 * groups / (time.monotonic() - started):.1f} groups a minute, the kill included")
    for trainer, looks in held.items():
        print(f"trainer {trainer}: {looks[:: max(1, len(looks) // 12)]}")
        late = [size for number, size in looks if number > looks[-1][0] - 10]
        early = [size for number, size in looks if looks[0][0] + 5 < number < looks[0][0] + 15]
        assert np.median(late) < np.median(early) + 300


@pytest.mark.slow
def test_a_trainer_that_crashes_loses_one_group(fleet, out, tmp_path, monkeypatch):
    """Memory that runs out ends a process by SIGKILL; here a callback of the job does, once."""
    (tmp_path / "deadly.py").write_text(
        "import os, signal\n"
        f"def kill(*_):\n    if os.path.exists({str(tmp_path / 'once')!r}):\n"
        f"        os.unlink({str(tmp_path / 'once')!r})\n        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    (tmp_path / "once").touch()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]))
    options = ["--set", "train.callbacks=[deadly:kill]", "--set", "limits.max_rejected_fraction=0.6", "--no-models"]
    assert each(fleet.folder, tmp_path / "out", *options, workers=1) == 0
    reasons = [json.loads(line)["reason"] for line in (tmp_path / "out" / "_rejects.jsonl").read_text().splitlines()]
    crashed = [reason for reason in reasons if "the trainer was ended by SIGKILL, as where memory runs out" in reason]
    assert len(crashed) == 1
    rows = pq.read_table(tmp_path / "out" / "results.parquet").to_pylist()
    before = {row["group"]: row["test_loss"] for row in pq.read_table(out / "results.parquet").to_pylist()}
    assert {row["group"]: row["test_loss"] for row in rows}.items() < before.items()
    assert {row["model"] for row in rows} == {None}


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["none", pytest.param("gzip", marks=pytest.mark.long)])
def test_a_partition_is_trained_as_the_trainer_alone_does_it(tmp_path, compression):
    lake = Lake(tmp_path)
    for day in range(2):
        lake.write(f"day={day}/rows.parquet", make_rows(150, day))
    del lake.job["features"]["note"]
    lake.job["output"] |= {"partition_by": ["day"], "compression": compression}
    lake.job["train"] = {
        "model": {"name": "tabular", "units": [8]},
        "task": {"name": "classify"},
        "epochs": 1,
        "feed": {"batch_size": 16},
        "review": {"baselines": "none"},
        "workdir": str(tmp_path / "model"),
    }
    assert lake.preprocess() == 0
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(lake.job))
    assert each(tmp_path, tmp_path / "out", "--by", "day", "--no-models", workers=1) == 0
    rows = pq.read_table(tmp_path / "out" / "results.parquet").to_pylist()
    assert [row["group"] for row in rows] == ["0", "1"]
    with in_same_process():
        assert train(["--job", str(tmp_path / "job.yaml"), "--set", "train.feed.where={day: [1]}"]) == 0
    alone = json.loads((tmp_path / "model" / "complete.json").read_text())
    assert rows[1]["best_loss"] == pytest.approx(alone["best_loss"], rel=1e-6)
    assert rows[1]["test_accuracy"] == pytest.approx(alone["test_metrics"]["accuracy"], rel=1e-6)
