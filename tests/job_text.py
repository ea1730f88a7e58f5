"""A small job file, which tests break in many ways."""

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
