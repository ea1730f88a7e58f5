"""Beam jobs: one file each, wiring only. `python -m pipelines.preprocess` runs them."""
