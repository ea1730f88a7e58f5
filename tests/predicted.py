"""A fleet with a trained autoencoder and what it says, and a table with a classifier, for what comes after training."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import yaml

from beamfeed.pipelines.predict import main as predict
from beamfeed.trainer.main import main as train
from tests.exports import in_same_process
from tests.fleets import Fleet
from tests.tables import Lake, make_table

EPOCH = {"epochs": 1, "feed": {"batch_size": 16}, "review": {"baselines": "none"}}


def trained(job: dict, folder: Path) -> Path:
    """The job file, when its model is there."""
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(job))
    with in_same_process():
        assert train(["--job", str(path)]) == 0
    return path


def make_series(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    wave = np.sin(np.arange(rows) / 7 + seed)
    columns = {f"x{at}": (wave * (at + 1) + 0.1 * rng.normal(size=rows)).astype("f4") for at in range(3)}
    start = np.datetime64("2024-03-01T00:00:00", "us")
    return pa.table({"t": start + np.arange(rows) * np.timedelta64(60, "s"), **columns})


def make_predicted_fleet(folder: Path) -> Fleet:
    """A trained autoencoder of series, and what it says of its dataset and, in `predicted`, of two new files."""
    fleet = Fleet(folder)
    for number in range(8):
        fleet.write(f"m{number}.parquet", make_series(600, number))
    fleet.job["train"] |= {
        "model": {"name": "dense_autoencoder", "units": [8], "latent": 2}, "epochs": 2, "feed": {"batch_size": 64},
        "review": {"baselines": "none"},
    }  # fmt: skip
    assert fleet.preprocess() == 0
    job = str(trained(fleet.job, fleet.folder))
    assert predict(["--job", job]) == 0
    new = fleet.folder / "new"
    new.mkdir()
    for name, seed in (("m0", 0), ("m9", 9)):
        table = make_series(400, seed).to_pandas()
        if name == "m9":
            table.loc[200:239, "x1"] = table.loc[200:239, "x1"] + 6
        table.to_parquet(new / f"{name}.parquet", index=False)
    assert predict(["--job", job, "--files", str(new), "--out", str(fleet.folder / "predicted")]) == 0
    return fleet


def make_trained_lake(folder: Path, *, grow: bool = False) -> Lake:
    """A classifier of rows of a table, and its dataset."""
    lake = Lake(folder)
    lake.job["output"]["grow"] = grow
    for day in range(3):
        lake.write(f"day={day}/rows.parquet", make_table(150, day))
    del lake.job["features"]["note"]  # which this model takes none of
    lake.job["train"] = EPOCH | {
        "model": {"name": "tabular", "units": [8]},
        "task": {"name": "classify"},
        "workdir": str(lake.folder / "model"),
    }
    assert lake.preprocess() == 0
    trained(lake.job, lake.folder)
    return lake
