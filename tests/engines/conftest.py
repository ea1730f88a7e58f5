"""Jobs that engines run, each with what a local run makes of it."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from cloud.standin import Cloud, start_cloud

from tests.albums import Album
from tests.fleets import Fleet, files_of, make_table
from tests.tables import Lake
from tests.tables import make_table as make_rows

# Where the tests are told to end, the clusters that they made end with them.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


@pytest.fixture(scope="session")
def cloud(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with start_cloud(tmp_path_factory.mktemp("cloud"), root) as started:
        yield started


@dataclass
class Prepared:
    """A job and the files of its local run."""

    job: Path
    files: dict[str, bytes]


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Prepared]:
    """By its kind: series, long series, table or image."""
    made: dict[str, Prepared] = {}

    def make(kind: str) -> Prepared:
        if kind not in made:
            made[kind] = _prepare(kind, tmp_path_factory.mktemp(kind))
        return made[kind]

    return make


def _prepare(kind: str, folder: Path) -> Prepared:
    if kind in ("series", "long series"):
        fleet, rows = Fleet(folder), 2000 if kind == "series" else 100_000
        for i in range(12):
            fleet.write(f"m{i}.parquet", make_table(rows, seed=i), row_group_size=rows // 4)
        fleet.write("broken.parquet", make_table(10)).write_bytes(b"PAR1 this is none PAR1")
        assert fleet.preprocess() == 0
        return Prepared(fleet.write_job(), files_of(fleet.output))
    if kind == "table":
        lake = Lake(folder)
        for day in range(3):
            lake.write(f"day={day}/a.parquet", make_rows(300, day), row_group_size=100)
        assert lake.preprocess() == 0
        return Prepared(folder / "job.yaml", files_of(lake.output))
    album = Album(folder)
    album.fill()
    assert album.preprocess() == 0
    return Prepared(album.write_job(), files_of(album.output))


class Preprocess:
    """Starts `beamfeed preprocess`, or another command, of a job on a backend, with an output of its own."""

    def __init__(self, output: Path):
        self.output: Path | str = output
        self.env: dict[str, str] | None = None

    def start(
        self, job: Path, backend: str, *overrides: str, command: str = "preprocess", **section: object
    ) -> subprocess.Popen:
        values = {
            "launch.preprocess.backend": backend,
            f"launch.preprocess.{backend}": yaml.safe_dump(section, default_flow_style=True, width=1000).strip(),
            "output.path": str(self.output),
        }
        sets = [f"{key}={value}" for key, value in values.items()] + list(overrides)
        program = [sys.executable, "-m", "beamfeed.launcher.cli", command, str(job)]
        return subprocess.Popen(
            [*program, *(part for one in sets for part in ("--set", one))],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env,
        )  # fmt: skip

    def run(self, job: Path, backend: str, *overrides: str, **section: object) -> tuple[int, str]:
        """The exit code, and what it said."""
        process = self.start(job, backend, *overrides, **section)
        out, error = process.communicate(timeout=400)
        return process.returncode, out + error


@pytest.fixture
def preprocess(tmp_path: Path) -> Preprocess:
    return Preprocess(tmp_path / "data")
