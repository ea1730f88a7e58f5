"""The process that traces, with a plain function in place of a graph."""

import sys
from contextlib import closing

import pytest

from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.transforms import tracing as tracing_module
from beamfeed.transforms.tracing import Tracing, wait_for


@pytest.fixture(autouse=True)
def without_tensorflow(monkeypatch):
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)


def test_what_the_process_says_at_last_is_why_it_failed():
    with closing(Tracing()) as tracing:
        tracing.trace(int, "a folder")
        with pytest.raises(JobFailed, match=r"cannot be traced: ValueError: invalid literal .* 'a folder'"):
            wait_for("a folder")
    wait_for("a folder")  # nothing runs any more


def tell_what_is_loaded(folder: str) -> None:
    raise ValueError(" ".join(sorted({"tensorflow", "keras", "h5py", "PIL"} & set(sys.modules))))


def test_it_loads_tensorflow_and_not_what_keras_asks_for_beside_it():
    """Which is 60 MB of a process that is the largest of a run."""
    with closing(Tracing()) as tracing:
        tracing.trace(tell_what_is_loaded, "a folder")
        with pytest.raises(JobFailed, match=r"ValueError: tensorflow$"):
            tracing.wait()


def test_one_that_is_not_needed_ends_at_once():
    with closing(Tracing()) as tracing:
        tracing.close()
    tracing.close()
    assert tracing._process.returncode


def test_without_tensorflow_transform_no_row_is_read(monkeypatch):
    monkeypatch.setattr(tracing_module, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="TensorFlow Transform is not installed"):
        Tracing()
