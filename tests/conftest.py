"""Fixtures of all tests."""

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # scikit-learn's threads would spin where tests run beside each other
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # likewise NumPy's

import pytest
from fleets import Fleet
from hypothesis import settings

from tests.fast import keep_all, skip_graph_optimizer

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # a machine without a GPU is no error
# Where a shell starts the tests in the background, it has them ignore Ctrl-C, and what they start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # likewise nohup

if "PYTEST_XDIST_WORKER" in os.environ:  # which loads the frameworks for one test or another
    gc.disable()  # until all tests are known: modules are no garbage
    skip_graph_optimizer()

# How long an example takes hangs on what else the machine does.
settings.register_profile("beamfeed", deadline=None)
settings.load_profile("beamfeed")

ROOT = Path(__file__).resolve().parent.parent

# Files whose tests share what takes long to make: one process runs them all.
TOGETHER = [f"tests/pipelines/test_{name}.py" for name in ("report", "score", "streaming", "predict")]


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """As `--dist loadfile`, but for files that belong together."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return TOGETHER[0] if file in TOGETHER else file

    return Together(config, log)


def pytest_collection_finish() -> None:
    gc.enable()
    gc.collect()
    gc.freeze()  # a seventh of the time of some tests went into looking through modules
    gc.set_threshold(50_000)  # a graph is of tens of thousands of objects


def pytest_runtest_setup() -> None:
    if "apache_beam" in sys.modules:
        keep_all()


@pytest.fixture(scope="session", autouse=True)
def folder_of_temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of the tests and of what they start: logs of jobs that are to fail, and what else is left there, goes with it."""
    tmp_path_factory.getbasetemp()  # that one stays where it is
    with (
        tempfile.TemporaryDirectory(prefix="beamfeed-tests-", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("TMPDIR", folder)
        patch.setenv("XDG_STATE_HOME", os.path.join(folder, "state"))  # where this machine notes its runs
        patch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("BEAMFEED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set BEAMFEED_DATA")
    return folder


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


@pytest.fixture
def new_fleet(tmp_path: Path) -> Callable[[str], Fleet]:
    return lambda name: Fleet(tmp_path / name)
