"""A stream of rows gives the numbers that `predict` gives for the files."""

import itertools
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import apache_beam as beam
import numpy as np
import pandas as pd
import pyarrow.dataset as ds
import pytest
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.testing import test_stream
from apache_beam.transforms.window import TimestampedValue

import beamfeed

ROOT = Path(__file__).parents[2]
FUTURE = np.datetime64("2100-01-01", "us")
FEATURES = ["x0", "x1", "x2"]


@pytest.fixture(scope="module")
def expected(predicted_fleet) -> pd.DataFrame:
    table = ds.dataset(predicted_fleet.folder / "predicted", format="parquet").to_table().to_pandas()
    return table.sort_values(["asset", "start"], ignore_index=True)


def read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    table = pd.read_parquet(path)
    return table["t"].to_numpy().astype("datetime64[us]"), table[FEATURES].to_numpy("f4")


def model(fleet) -> str:
    return str(Path(fleet.job["train"]["workdir"], "saved_model"))


def check(answers: list[dict], expected: pd.DataFrame) -> None:
    found = pd.DataFrame(answers).sort_values(["asset", "start"], ignore_index=True)
    assert found["asset"].tolist() == expected["asset"].tolist()
    for name in ("start", "time", "until"):
        assert (found[name] == expected[name]).all()
    for name in ("score", "pca_q", "pca_t2", "nearest"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.stack(found["latent"]), np.stack(expected["latent"]), atol=1e-5)


def streaming(runner: str) -> PipelineOptions:
    options = PipelineOptions([f"--runner={runner}"])
    options.view_as(StandardOptions).streaming = True
    return options


def write(answer: dict, folder: Path) -> None:
    answer["told_at"] = time.monotonic_ns()
    np.save(folder / f"{answer['asset']}-{answer['start']}.npy", np.array([answer], object), allow_pickle=True)


def written(folder: Path) -> list[dict]:
    return [np.load(path, allow_pickle=True)[0] for path in folder.iterdir()]


def test_rows_in_any_order(predicted_fleet, expected, tmp_path):
    rng = np.random.default_rng(0)
    stream = test_stream.TestStream()
    series = {path.stem: read(path) for path in (predicted_fleet.folder / "new").iterdir()}
    edge = 0
    future = TimestampedValue(("m0", (FUTURE, np.zeros(3))), 0)  # of a clock that is wrong
    stream = stream.add_elements([future])
    while edge < 400:  # what comes between two moves of the watermark comes in any order, as single rows and blocks
        end, elements = edge + int(rng.integers(20, 90)), []
        for asset, (times, values) in series.items():
            rows = rng.permutation(np.arange(edge, min(end, 400)))
            for some in np.split(rows, [1, 2, len(rows) // 2]):
                if len(some):
                    elements.append((asset, (times[some], values[some])))
        stamp = times[edge].astype(np.int64) / 1e6
        order = rng.permutation(len(elements))
        stream = stream.add_elements([TimestampedValue(elements[at], stamp) for at in order])
        edge = min(end, 400)
        stream = stream.advance_watermark_to(times[edge - 1].astype(np.int64) / 1e6 + 1)
    assert edge == 400
    late = series["m0"]
    stream = stream.add_elements([TimestampedValue(("m0", (late[0][:3], late[1][:3])), stamp)])
    with beam.Pipeline(options=streaming("BundleBasedDirectRunner")) as pipeline:
        rows = pipeline | stream.advance_watermark_to_infinity()
        _ = rows | beamfeed.PredictStream(model(predicted_fleet)) | beam.Map(write, tmp_path)
    found = written(tmp_path)
    check([one for one in found if one["until"] < FUTURE], expected)
    # The clock that is wrong keeps no other row of its machine waiting.
    first, last = (
        pick(one["told_at"] for one in found if one["asset"] == name) for pick, name in ((min, "m0"), (max, "m9"))
    )
    assert first < last


def test_times_of_odd_microseconds(predicted_fleet, expected, tmp_path):
    """Runners keep whole milliseconds of timers."""
    times, values = read(predicted_fleet.folder / "new" / "m0.parquet")
    odd = times + np.arange(400) * np.timedelta64(1234, "us") + np.timedelta64(567, "us")
    rows = [("m0", (odd[row], values[row])) for row in range(400)]
    with beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"])) as pipeline:
        created = pipeline | beam.Create(rows)
        _ = created | beamfeed.PredictStream(model(predicted_fleet)) | beam.Map(write, tmp_path)
    found = sorted(written(tmp_path), key=lambda one: one["start"])
    assert [one["until"] for one in found] == [odd[one["start"] + 7] for one in found]
    assert [one["start"] for one in found] == expected[expected["asset"] == "m0"]["start"].tolist()


@pytest.mark.slow
def test_files_that_arrive(predicted_fleet, expected, tmp_path):
    """The example in a process of its own: the next files come when the answers for those before are there."""
    folder, new = tmp_path / "new", predicted_fleet.folder / "new"
    folder.mkdir()
    command = ["--model", model(predicted_fleet), "--files", f"{folder}/*.parquet", "--time", "t", "--every", "1"]
    process = subprocess.Popen(
        [sys.executable, "-u", ROOT / "examples" / "stream.py", *command, "--for", "600", "--runner=FnApiRunner"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    timer = threading.Timer(300, process.kill)
    timer.start()
    lines: list[str] = []
    try:
        for first, there in ((0, 144), (150, 294), (300, len(expected))):
            for path in new.iterdir():
                part = pd.read_parquet(path).iloc[first : first + 150]
                part.to_parquet(tmp_path / "part", index=False)
                (tmp_path / "part").rename(folder / f"{path.stem}-{first}.parquet")
            lines += itertools.islice(process.stdout, there - len(lines))
            assert (len(lines), process.poll()) == (there, None)
    finally:
        timer.cancel()
        process.kill()
        process.communicate()
    answers = sorted((json.loads(line) for line in lines), key=lambda one: (one["asset"], one["time"]))
    assert [one["asset"] for one in answers] == expected["asset"].tolist()
    np.testing.assert_allclose([float(one["score"]) for one in answers], expected["score"], rtol=1e-5)
