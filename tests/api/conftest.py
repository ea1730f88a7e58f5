"""A small fleet of pumps and the job on it, as the examples of the docstrings take them."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

JOB = """\
name: pumps
source:
  kind: timeseries
  files: fleet/*.parquet
  time: {column: timestamp}
  features: ["*_bar", flow_m3h]
windows: {length: 8, stride: 4}
split: {train: 0.6, eval: 0.2, test: 0.2}
output: {path: out/data}
train:
  model: {name: dense_autoencoder, units: [4], latent: 2}
  feed: {batch_size: 8}
  epochs: 2
  review: {baselines: none}
  workdir: out/model
launch:
  train: {workers: 1}
"""


def write_pumps(folder: Path, pumps: int = 6, rows: int = 200) -> None:
    """Writes job.yaml and fleet/pump-00.parquet, pump-01.parquet, ... into a folder."""
    (folder / "fleet").mkdir()
    (folder / "job.yaml").write_text(JOB)
    for i in range(pumps):
        rng = np.random.default_rng(i)
        time = np.arange(rows)
        table = pa.table(
            {
                "timestamp": pa.array(time * 1_000_000, pa.timestamp("us")),
                "inlet_bar": (2 + np.sin(time / 9) + rng.normal(0, 0.1, rows)).astype("f4"),
                "outlet_bar": (6 + np.cos(time / 9) + rng.normal(0, 0.1, rows)).astype("f4"),
                "flow_m3h": (40 + 5 * np.sin(time / 5) + rng.normal(0, 0.5, rows)).astype("f4"),
            }
        )
        pq.write_table(table, folder / "fleet" / f"pump-{i:02d}.parquet")


@pytest.fixture(scope="module")
def pumps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of job.yaml, and the current one."""
    folder = tmp_path_factory.mktemp("pumps")
    write_pumps(folder)
    before = os.getcwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)
