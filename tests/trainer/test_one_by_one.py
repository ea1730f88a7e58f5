"""The trainer that trains one model after another, as who starts it sees it: by lines of JSON."""

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from beamfeed.contract.dataset.one_by_one import Answer, TrainRequest
from beamfeed.contract.errors import JobFailed, Unanswered
from beamfeed.contract.options import ONE_BY_ONE
from beamfeed.trainer import one_by_one
from beamfeed.trainer.one_by_one import remove
from tests.fleets import Fleet, make_table

LOOK = """
import os, pathlib
import keras
from tensorflow.python.framework.config import is_op_determinism_enabled
def look(*_):
    pathlib.Path(os.environ["SEEN"]).write_text(str(is_op_determinism_enabled()))
    return keras.callbacks.Callback()
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory) -> Fleet:
    fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    fleet.write("a.parquet", make_table(200))
    fleet.job["train"] |= {
        "model": {"name": "dense_autoencoder", "units": [4], "latent": 2},
        "feed": {"batch_size": 16},
        "epochs": 1,
        "devices": {"deterministic": True},
        "callbacks": ["looking:look"],
        "writers": [],
        "floor": False,
    }
    (fleet.folder / "looking.py").write_text(LOOK)
    assert fleet.preprocess() == 0
    return fleet


@pytest.fixture
def trainer(fleet, tmp_path) -> Iterator[subprocess.Popen]:
    folder = tmp_path / "beamfeed-each-it"
    folder.mkdir()
    path = os.pathsep.join([str(fleet.folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    with subprocess.Popen(
        [sys.executable, "-m", ONE_BY_ONE.module, str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": path, "SEEN": str(tmp_path / "seen")},
    ) as process:  # fmt: skip
        assert Answer.model_validate_json(process.stdout.readline()) == Answer()
        yield process
        process.kill()


def test_a_folder_goes_while_files_are_written_to_it(tmp_path):
    folder, begun = tmp_path / "busy", threading.Event()
    folder.mkdir()

    def write():
        with suppress(FileNotFoundError):
            for number in range(100_000):
                (folder / str(number)).touch()
                if number == 100:
                    begun.set()

    writer = threading.Thread(target=write)
    writer.start()
    begun.wait()
    remove(str(folder))
    writer.join(10)
    assert list(tmp_path.iterdir()) == []


OF_A_BUSY_TRAINER = """
import pathlib, sys, time
from beamfeed.contract.dataset.one_by_one import Answer
from beamfeed.trainer.one_by_one import EndOnce, serve, watched

def work(request):
    while folder.exists():
        time.sleep(0.001)
    if sys.argv[2] == "fails":
        raise ValueError("its files are gone")
    return Answer()

folder = pathlib.Path(sys.argv[1])
end = EndOnce(str(folder))
serve(watched(sys.stdin, end), sys.stdout, work, end)
"""


@pytest.mark.parametrize("work", ["answers", "fails"])
def test_a_folder_goes_also_where_work_ends_while_it_is_removed(tmp_path, work):
    folder = tmp_path / "large"
    folder.mkdir()
    for number in range(3000):
        (folder / str(number)).touch()
    with subprocess.Popen(
        [sys.executable, "-c", OF_A_BUSY_TRAINER, str(folder), work],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert Answer.model_validate_json(process.stdout.readline()) == Answer()
        process.stdin.write(TrainRequest(job="", dataset="", model=True, check=True).model_dump_json() + "\n")
        process.stdin.flush()
        process.stdout.close()  # who asked is killed
        process.stdin.close()
        assert process.wait(20) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "then", "is_trouble"),
    [
        (JobFailed("the loss is nan"), "data", False),
        (Unanswered("gs://b/x: no answer"), "data", True),
        (ValueError("x"), Unanswered("gs://b/x: no answer"), True),
        (OSError(errno.ENOSPC, "No space left"), "data", True),
        (ValueError("x"), "other", True),
    ],
    ids=["of the data", "a bucket", "a bucket, later", "a full disk", "another dataset"],
)
def test_trouble_is_no_fault_of_a_group(monkeypatch, error, then, is_trouble):
    def find(output):
        if isinstance(then, Exception):
            raise then
        return then

    monkeypatch.setattr(one_by_one, "find_fingerprint", find)
    assert one_by_one._why_none(error, "gs://b/x", "data").is_trouble == is_trouble


def ask(process: subprocess.Popen, fleet: Fleet, workdir: Path, dataset: str) -> None:
    job = fleet.job | {"train": fleet.job["train"] | {"workdir": str(workdir)}}
    request = TrainRequest(job=yaml.safe_dump(job), dataset=dataset, model=True, check=True)
    process.stdin.write(request.model_dump_json() + "\n")
    process.stdin.flush()


@pytest.mark.slow
def test_it_trains_the_dataset_it_is_asked_for_and_leaves_nothing_when_it_is_ended(fleet, trainer, tmp_path):
    folder, fingerprint = tmp_path / "beamfeed-each-it", fleet.manifest.fingerprint
    ask(trainer, fleet, folder / "other", "of another one")
    answer = Answer.model_validate_json(trainer.stdout.readline())
    assert answer.is_trouble
    assert answer.reason.startswith(f"{fleet.output}: is not the dataset that it was when this began")
    assert not (tmp_path / "seen").exists()

    ask(trainer, fleet, folder / "work", fingerprint)
    answer = Answer.model_validate_json(trainer.stdout.readline())
    assert answer.result, answer.reason
    assert (tmp_path / "seen").read_text() == "True"  # operations are deterministic, as the job has it

    ask(trainer, fleet, folder / "again", fingerprint)
    end = time.monotonic() + 60
    while not list(tmp_path.rglob("beamfeed-export-*")):  # in the middle of its check of the SavedModel
        assert time.monotonic() < end
        time.sleep(0.01)
    trainer.stdin.close()
    assert trainer.wait(60) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["seen"]
