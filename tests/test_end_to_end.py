"""The whole job by its command line: from raw files to an exported model."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from fleets import read_windows

from beamfeed.trainer.tools.inspect_dataset import main as inspect

BEAMFEED = Path(sys.executable).with_name("beamfeed")


def run(root: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run([str(BEAMFEED), *arguments], capture_output=True, text=True, cwd=root, timeout=540)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def turbofan(root: Path, folder: Path, files: Path, *overrides: str) -> list[str]:
    sets = [
        f"source.files={files}",
        f"output.path={folder}/data",
        f"train.workdir={folder}/model",
        "train.epochs=2",
        "train.model.units=[16]",
        "train.review.baselines=none",
        *overrides,
    ]
    return [str(root / "examples" / "turbofan.yaml"), *(part for override in sets for part in ("--set", override))]


@pytest.fixture(scope="module")
def trained(root, data, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("turbofan")
    run(root, "run", *turbofan(root, folder, data / "turbofan"))
    return folder


@pytest.mark.slow
def test_turbofan_learns_and_holds_no_nan(trained):
    lines = [json.loads(line) for line in (trained / "model" / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
    assert lines[1]["eval_loss"] < lines[0]["eval_loss"]
    for split in ("train", "eval", "test"):
        windows = [
            window for of_asset in read_windows(trained / "data", split).values() for window in of_asset.values()
        ]
        assert np.isfinite(windows).all()


@pytest.mark.slow
def test_a_second_run_does_nothing(root, data, trained):
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
    done = run(root, "run", *turbofan(root, trained, data / "turbofan"))
    assert "preprocess: complete, nothing to do" in done.stderr
    assert "train: complete, nothing to do" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == before


@pytest.mark.slow
def test_inspect_shows_and_verifies(trained, capsys):
    assert inspect([str(trained / "data"), "--verify", "--windows", "1"]) == 0
    assert "sensor_01" in capsys.readouterr().out
    shard = next((trained / "data").glob("data-*/eval/part-00000-*"))
    content = bytearray(shard.read_bytes())
    content[100] ^= 1
    whole = shard.read_bytes()
    shard.write_bytes(bytes(content))
    assert inspect([str(trained / "data"), "--verify"]) == 1
    assert shard.name in capsys.readouterr().out
    shard.write_bytes(whole)


@pytest.mark.slow
def test_export_reconstructs_windows(trained):
    import tensorflow as tf

    model = tf.saved_model.load(str(trained / "model" / "saved_model"))
    windows = np.stack(list(next(iter(read_windows(trained / "data", "eval").values())).values()))[:7]
    outputs = model.signatures["preprocessed"](windows=tf.constant(windows))
    assert {name: tuple(value.shape) for name, value in outputs.items()} == {
        "latent": (7, 16),
        "reconstruction": windows.shape,
        **dict.fromkeys(("score", "pca_q", "pca_t2", "nearest"), (7,)),
    }


@pytest.mark.slow
def test_a_run_on_one_asset_has_folders_of_its_own_and_the_batch_that_it_has(root, data, tmp_path):
    sets = ["launch.train.workers=1", "train.epochs=1", "after=[predict]"]
    job = turbofan(root, tmp_path, data / "turbofan_csv", *sets)
    first = run(root, "run", *job, "--max-assets", "1")
    assert "a batch is of 163 windows, not of 256 (train.feed.batch_size)" in first.stderr  # 192 rows, 30 a window
    assert not (tmp_path / "data").exists()
    assert json.loads((tmp_path / "data-1-assets" / "manifest.json").read_text())["counts"]["assets"] == 1
    assert (tmp_path / "model-1-assets" / "model.keras").is_file()
    assert list((tmp_path / "model-1-assets" / "predictions").rglob("*.parquet"))  # what follows it is of it
    again = run(root, "run", *job, "--max-assets", "1")
    assert again.stderr.count("complete, nothing to do") == 2


@pytest.mark.long
def test_demo_job_with_one_and_two_workers_gives_the_same_model(root, tmp_path):
    """The demo's job, smaller: resampled, with gaps, two processes against one."""
    fleet = tmp_path / "fleet"
    command = [sys.executable, "examples/make_fleet.py", "--out", str(fleet), "--assets", "6", "--rows", "3000"]
    subprocess.run(command, check=True, cwd=root, timeout=120)
    job = yaml.safe_load((root / "examples" / "fleet.yaml").read_text())
    job["source"]["files"] = f"{fleet}/*.parquet"
    job["output"]["path"] = str(tmp_path / "data")
    job["train"]["epochs"] = 2
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    weights = []
    for workers in (1, 2):
        workdir = tmp_path / f"model-{workers}"
        sets = ["--set", f"train.workdir={workdir}", "--set", f"launch.train.workers={workers}"]
        run(root, "run", str(tmp_path / "job.yaml"), *sets)
        weights.append(_weights(workdir))
    for one, two in zip(*weights, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)


def _weights(workdir: Path) -> list[np.ndarray]:
    import keras

    import beamfeed.trainer.models  # noqa: F401  registers the class

    return keras.saving.load_model(workdir / "model.keras").get_weights()
