"""Training on what the last runs added to a dataset that grows, with some of what was there."""

import json
import shutil

import pytest

from beamfeed.contract.config.load import load_job
from beamfeed.contract.dataset.manifest import find_manifest
from beamfeed.contract.dataset.recent import training_manifest
from beamfeed.launcher.cli import main as command
from beamfeed.trainer.main import main
from tests.tables import Lake, make_table

pytestmark = pytest.mark.slow

TRAIN = {
    "model": {"name": "linear"},
    "task": {"name": "classify", "target": "label"},
    "feed": {"batch_size": 16},
    "epochs": 2,
    "on": {"runs": 2, "replay": 0.3},
    "review": {"baselines": "none"},  # losses by age have no part in them
}


def train(job, *overrides):
    """In this process; returns the exit code."""
    sets = (part for override in overrides for part in ("--set", override))
    return main(["--job", str(job), *sets])


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    lake = Lake(tmp_path_factory.mktemp("on"))
    lake.job["output"] |= {"grow": True, "shards": 4}
    lake.job |= {"label": {"column": "fraud", "classes": "auto", "name": "label"}}
    # Which shards are read hangs on no feature; a linear model of few is fitted at once.
    lake.job["features"] = {name: lake.job["features"][name] for name in ("row", "amount", "count", "kind")}
    lake.job["train"] = TRAIN | {"workdir": str(lake.folder / "model")}
    for day in range(3):
        for part in range(4):
            lake.write(f"{day}-{part}.parquet", make_table(200, seed=4 * day + part))
        assert lake.preprocess() == 0
    return lake


def test_only_the_shards_of_the_last_runs_and_some_older_ones_are_read(lake, capfd):
    whole = find_manifest(str(lake.output))
    job = load_job(str(lake.folder / "job.yaml"))
    some = training_manifest(job.train, whole)
    folders = [shard.file.partition("/")[0] for shard in some.splits["train"].shards]
    new = [one.data for one in whole.increments[1:]]
    assert len(folders) == 4 + 4 + 2  # of four older ones, two have 0.3 of the windows
    assert folders.count(new[0]) == folders.count(new[1]) == 4
    read = set(some.shard_paths(str(lake.output), "train"))
    aside = lake.folder / "aside"
    aside.mkdir()
    moved = [path for path in whole.shard_paths(str(lake.output), "train") if path not in read]
    for number, path in enumerate(moved):
        shutil.move(path, aside / str(number))
    done = train(lake.folder / "job.yaml")
    for number, path in enumerate(moved):
        shutil.move(aside / str(number), path)
    assert done == 0
    review = json.loads((lake.folder / "model" / "review.json").read_text())
    for split in ("eval", "test"):
        parts = review["splits"][split]["by_age"]
        assert list(parts) == ["of the last 2 runs", "before the last 2 runs"]
        assert all(measured["loss"] > 0 for measured in parts.values())
        windows = {
            words: sum(
                shard.windows
                for shard in whole.splits[split].shards
                if (shard.file.partition("/")[0] in new) == (words == "of the last 2 runs")
            )
            for words in parts
        }
        mean = sum(windows[words] * measured["loss"] for words, measured in parts.items()) / sum(windows.values())
        assert review["splits"][split]["model"]["loss"] == pytest.approx(mean, rel=1e-4)
    capfd.readouterr()
    assert command(["train", str(lake.folder / "job.yaml")]) == 0
    assert "of the last 2 runs" in capfd.readouterr().out


def test_runs_that_were_merged_cannot_be_told(lake, capfd, without_export):
    job = lake.folder / "job.yaml"
    half = ["train.on={runs: 3}", f"train.workdir={lake.folder}/half"]
    assert train(job, *half, "train.max_steps=3") == 0
    assert command(["compact", str(job)]) == 0
    capfd.readouterr()
    assert train(job) == 2
    message = "train.on.runs: is 2, but not all windows of these runs are in shards of their own"
    assert message in capfd.readouterr().err
    assert train(job, *half, "train.max_steps=3") == 0  # complete
    assert train(job, *half, "train.max_steps=6") == 2
    message = "half: holds a training run on shards (train.on) that beamfeed compact has merged since"
    assert message in capfd.readouterr().err
