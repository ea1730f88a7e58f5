"""A bucket that does not answer says nothing of what is in it: neither that it is damaged nor that it is not there."""

import pytest

from beamfeed.contract import storage
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.dataset.raw_rows import read_raw_rows
from beamfeed.contract.dataset.result import read_result, read_run
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.growth import Learned
from beamfeed.transforms.known_assets import known_before

SAID = "gs://b/x: no answer for 60 s"


@pytest.mark.parametrize(
    "read",
    [read_result, read_run, read_raw_rows, Learned.read, lambda path: known_before(DataLayout(path, "data-0"))],
    ids=["result", "run", "raw rows", "learned", "assets"],
)
def test_it_is_no_answer(monkeypatch, read):
    def fail(path):
        raise ConnectionError(SAID)

    for name in ("read_text", "read_table"):
        monkeypatch.setattr(storage, name, fail)
    with pytest.raises(JobFailed, match=f"^job failed: {SAID}$"):
        read("gs://b/x")
