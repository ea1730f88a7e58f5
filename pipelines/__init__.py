"""Beam jobs: one file each, wiring only. `python -m beamfeed.pipelines.preprocess` runs them."""
