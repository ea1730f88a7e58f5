"""A small job file, which tests break in many ways, and what is then told of it."""

import pytest

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.load import parse_as
from beamfeed.contract.errors import UserError

TEXT = """\
name: turbofan
source:
  kind: timeseries
  files: fleet/*.parquet
  time: {column: cycle}
  features: ["sensor_*"]
windows: {length: 30, stride: 1}
split:
  train: 0.8
output: {path: out/data}
train:
  model: {name: recurrent_autoencoder}
  workdir: out/model
"""


def complaint(text: str, *overrides: str, model: type[Job] = Job) -> str:
    """What is told of a job file that cannot be used, a line for each mistake."""
    with pytest.raises(UserError) as caught:
        parse_as(model, text, overrides, name="job.yaml")
    return str(caught.value)
