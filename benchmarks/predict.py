"""How fast `beamfeed predict` is, beside the naive way and beside the model alone: windows a second.

    python benchmarks/predict.py [--assets 8] [--rows 100000] [--seconds 20] [--growth 10] [--json FILE]

A fleet of noise (fleet.py), windows of 32 rows, the dense autoencoder of examples/fleet.yaml after one epoch.

    beamfeed      the windows of the dataset -> Parquet with errors of each column; without the start of the process
    Keras         its `predict` of one array that is in memory, in batches of 256 and of 4096: reconstructions alone
    exported      the signature that beamfeed calls, of the same array in the same batches: also the latent numbers, the
                  error, and how far PCA and k-means have the window from those of training
    naive         a DoFn that calls Keras's `predict` for each window, for some seconds

Each but the last is the median of three turns, after one that loads what takes long to load.
With --growth, `predict` and `score` of that many times the assets, as processes: seconds and memory beside those of the
fleet itself.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from fleet import make_fleet
from measure import measure
from turns import say, write_json

ROOT = Path(__file__).resolve().parent.parent
TURNS = 3
BEAMFEED = (sys.executable, "-m", "beamfeed.launcher.cli")


def job_file(folder: Path) -> Path:
    """The job of examples/fleet.yaml on a folder, with one epoch."""
    job = yaml.safe_load((ROOT / "examples" / "fleet.yaml").read_text())
    job["source"] |= {"files": str(folder / "fleet" / "*.parquet"), "features": ["sensor_*"]}
    job["output"]["path"], job["train"]["workdir"] = str(folder / "data"), str(folder / "model")
    job["train"] |= {"epochs": 1, "max_steps": 1000, "review": {"baselines": "none"}}
    job["launch"]["train"]["workers"] = 1
    job["windows"]["stride"] = 4
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(job))
    return path


def windows_per_second(answer: Callable[[], int]) -> float:
    """The median of some turns of what gives so many windows, after one that loads modules and traces."""
    rates = []
    for _ in range(1 + TURNS):
        began = time.perf_counter()
        count = answer()
        rates.append(count / (time.perf_counter() - began))
    return statistics.median(rates[1:])


def of_beamfeed(job: Path, out: Path) -> int:
    """The windows that `beamfeed predict` writes of the dataset's training split."""
    from beamfeed.pipelines.predict import main

    assert main(["--job", str(job), "--out", str(out), "--split", "train", "--force"]) == 0
    told = json.loads((out / "_export.json").read_text())
    shutil.rmtree(out)
    return sum(told["items"].values())


def read_windows(data: Path, most: int) -> np.ndarray:
    """float32 `[n, length, features]`, of training."""
    from beamfeed import load_dataset

    batches, count = [], 0
    for batch in load_dataset(str(data), "train", batch_size=1024, shuffle=0, epochs=1).as_numpy_iterator():
        batches.append(batch["values"] if isinstance(batch, dict) else batch)
        count += len(batches[-1])
        if count >= most:
            break
    return np.concatenate(batches)


def of_keras(model: Any, windows: np.ndarray, batch: int) -> int:
    """The windows of which Keras's predict gave the reconstructions."""
    return len(model.predict(windows, batch_size=batch, verbose=0))


def of_exported(call: Any, windows: np.ndarray, batch: int) -> int:
    """The windows of which an exported model gave all that it gives."""
    import tensorflow as tf

    (name,) = call.structured_input_signature[1]
    parts = [windows[first : first + batch] for first in range(0, len(windows), batch)]
    return sum(len(np.asarray(call(**{name: tf.constant(part)})["score"])) for part in parts)


def naive(path: str, windows: np.ndarray, seconds: float) -> float:
    """Windows a second of a DoFn that predicts one at a time."""
    import apache_beam as beam
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner

    class PredictOne(beam.DoFn):
        def setup(self) -> None:
            import keras

            self._model = keras.models.load_model(path)
            self._model.predict(windows[:1], verbose=0)
            self._began = time.perf_counter()

        def process(self, number: int):
            if time.perf_counter() - self._began < seconds:
                yield self._model.predict(windows[number][None], verbose=0).sum()

    def note(count: int) -> None:  # the pipeline has a copy of what it closes over
        Path(path + ".count").write_text(str(count))

    with beam.Pipeline(FnApiRunner()) as pipeline:
        found = pipeline | beam.Create(range(len(windows)), reshuffle=False) | beam.ParDo(PredictOne())
        _ = found | beam.combiners.Count.Globally() | beam.Map(note)
    return int(Path(path + ".count").read_text()) / seconds


def prepared(folder: Path, assets: int, rows: int) -> Path:
    """The job of a fleet that is prepared and trained on."""
    make_fleet(folder / "fleet", assets, rows)
    job = job_file(folder)
    subprocess.run([*BEAMFEED, "run", str(job), "-q"], check=True, stdout=subprocess.DEVNULL)
    return job


def in_processes(job: Path) -> dict[str, object]:
    """What `predict` and `score` take of a dataset."""
    took = {
        name: asdict(measure([*BEAMFEED, name, str(job), "--force"], str(job.parent / "log")))
        for name in ("predict", "score")
    }
    told = json.loads((job.parent / "model" / "predictions" / "_export.json").read_text())
    return {"windows": sum(told["items"].values()), **took}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--assets", type=int, default=8)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="of the naive way")
    parser.add_argument("--growth", type=int, default=0, help="times the assets")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with tempfile.TemporaryDirectory(prefix="beamfeed-predict-") as name:
        folder = Path(name)
        growth = []
        for factor in (1, args.growth) if args.growth else ():
            growth.append(in_processes(prepared(folder / f"times-{factor}", factor * args.assets, args.rows)))
            for what in ("predict", "score"):
                took = growth[-1][what]
                say(
                    f"{what} of {growth[-1]['windows']:,} windows: {took['seconds']:.1f} s, "
                    f"{took['peak_rss_mb']:,.0f} MB"
                )
        job = prepared(folder, args.assets, args.rows)
        rates = {"beamfeed": windows_per_second(lambda: of_beamfeed(job, folder / "out"))}
        import keras
        import tensorflow as tf

        windows = read_windows(folder / "data", 300_000)
        model = keras.models.load_model(folder / "model" / "model.keras")
        exported = tf.saved_model.load(str(folder / "model" / "saved_model")).signatures["preprocessed"]
        for batch in (256, 4096):
            for way, count, one in (("Keras", of_keras, model), ("exported", of_exported, exported)):
                rates[f"{way}, batches of {batch}"] = windows_per_second(partial(count, one, windows, batch))
        rates["naive"] = naive(str(folder / "model" / "model.keras"), windows[:20_000], args.seconds)
        for way, rate in rates.items():
            say(f"{way:30} {rate:12,.0f} windows a second")
        results = {way: {"windows_per_second": rate} for way, rate in rates.items()}
        write_json({"windows": len(windows), "results": results, "growth": growth}, args.json)


if __name__ == "__main__":
    main()
