"""A bucket that does not answer says nothing of what is in it: neither that it is damaged nor that it is not there."""

import pytest
import requests

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.checkpoints import find_progress
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.dataset.manifest import find_fingerprint
from beamfeed.contract.dataset.raw_rows import read_raw_rows
from beamfeed.contract.dataset.result import read_result, read_run
from beamfeed.contract.dataset.review import read_review
from beamfeed.contract.errors import Unanswered
from beamfeed.contract.storage import files, gcs
from beamfeed.launcher.runs import find
from beamfeed.trainer.loop.training import note_new_data
from beamfeed.transforms.growth import Learned
from beamfeed.transforms.known_assets import known_before

READERS = {
    "result": read_result,
    "run": read_run,
    "review": lambda path: read_review(path, "1"),
    "raw rows": read_raw_rows,
    "learned": Learned.read,
    "assets": lambda path: known_before(DataLayout(path, "data-0")),
    "fingerprint": find_fingerprint,
    "progress": find_progress,
    "runs": lambda path: list(find.find_runs(path)),
}


@pytest.fixture
def silent(monkeypatch):
    """A folder of a bucket that nobody answers for, as either client has it."""

    def fail(error):
        raise error

    text = "no answer for 60 s"
    monkeypatch.setattr(files, "_gcs", lambda: fail(OSError(f"Unknown: with a last message of {text} error_info={{}}")))
    monkeypatch.setattr(gcs, "_client", lambda thread: fail(requests.exceptions.ConnectionError(text)))
    monkeypatch.setattr(files, "require_credentials", lambda: None)
    return "gs://b/x"


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_it_is_no_answer(silent, read):
    with pytest.raises(Unanswered, match=r"^job failed: gs://b/x.*: no answer for 60 s$"):
        read(silent)


@pytest.mark.parametrize("answers", [[], ["stat"]], ids=["nothing", "the size alone"])
def test_a_training_goes_on_and_tells_of_no_new_data(silent, capsys, monkeypatch, answers):
    job = Job.model_construct(output=type("Output", (), {"path": silent}))
    last_stat = storage.FileStat("gs://b/x/manifest.json", 1, "now")
    if answers:
        monkeypatch.setattr(storage, "stat", lambda path: storage.FileStat(path, 2, "later"))
    assert note_new_data(job, None, last_stat) is last_stat
    assert capsys.readouterr().err == ""


def test_it_hides_no_runs_elsewhere(silent, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    find.remember(find.RecordLayout(silent, "20260101-000000-0000"))
    assert list(find.known_runs()) == []
