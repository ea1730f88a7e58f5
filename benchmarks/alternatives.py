"""What is compared in preprocessing: names, commands, and what each of them is."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from turns import preprocessing

HERE = Path(__file__).resolve().parent
LENGTH, STRIDE = 64, 16  # of the windows, in all of them
OURS = "beamfeed"


@dataclass(frozen=True)
class Alternative:
    """One way to preprocess a fleet.

    Attributes:
      command: (input folder, output folder, scratch folder, workers) -> command line.
      repeats: times that it is run; the median counts.
      needs: the library that it needs beside those of the project.
    """

    name: str
    what: str
    command: Callable[[Path, Path, Path, int], list[str]]
    repeats: int = 1
    needs: str | None = None


def job(files: Path, output: Path, workdir: Path, workers: int, records: str = "segments") -> dict:
    """Our job on a fleet of `fleet.py`. All assets train, as the alternatives know no splits."""
    return {
        "name": "bench",
        "source": {
            "kind": "timeseries",
            "files": str(files),
            "time": {"column": "timestamp"},
            "features": ["sensor_*"],
        },
        "windows": {"length": LENGTH, "stride": STRIDE},
        "split": {"train": 1.0, "eval": 0.0, "test": 0.0},
        "output": {"path": str(output), "records": records},
        "train": {"model": {"name": "recurrent_autoencoder"}, "workdir": str(workdir)},
        "launch": {"preprocess": {"workers": workers}},
    }


def ours(records: str = "segments") -> Callable[[Path, Path, Path, int], list[str]]:
    def command(files: Path, output: Path, scratch: Path, workers: int) -> list[str]:
        return preprocessing(job(files, output, scratch / "model", workers, records), scratch / f"{records}.yaml")

    return command


def script(name: str, *options: str, workers: bool = True) -> Callable[[Path, Path, Path, int], list[str]]:
    def command(files: Path, output: Path, scratch: Path, count: int) -> list[str]:
        more = ["--workers", str(count)] if workers else []
        return [sys.executable, str(HERE / name), "--input", str(files), "--output", str(output), *options, *more]

    return command


ALTERNATIVES = (
    Alternative(
        "bound",
        "the least that must be done, in one process: pyarrow reads all into memory, NumPy standardizes, bare floats "
        "are written as TFRecords. Nothing is checked or read back.",
        script("preprocess_bound.py", workers=False),
        repeats=3,
    ),
    Alternative(
        OURS,
        "every row is checked, every shard read back.",
        ours(),
        repeats=3,
    ),
    Alternative(
        f"{OURS}, records: windows",
        "the same, one Example per window.",
        ours("windows"),
    ),
    Alternative(
        "Beam, threads",
        "`pandas.read_parquet`, an Example per window, `WriteToTFRecord` without a shuffle; one thread per core.",
        script("preprocess_beam.py", "--mode", "multi_threading"),
    ),
    Alternative(
        "Beam, processes",
        "the same; one process per core.",
        script("preprocess_beam.py", "--mode", "multi_processing"),
    ),
    Alternative(
        "Dask, gathered",
        "threads make serialized Examples; the caller writes them.",
        script("preprocess_dask.py", "--write", "gathered", "--scheduler", "threads"),
        needs="dask",
    ),
    Alternative(
        "Dask, tasks write",
        "each task writes its own file; one process per core.",
        script("preprocess_dask.py", "--write", "tasks", "--scheduler", "processes"),
        needs="dask",
    ),
)
