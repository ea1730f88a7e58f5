"""The fleets on paper are planned by the code that plans a job."""

import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))  # the scripts import each other as siblings
scale = importlib.import_module("scale")
limits = importlib.import_module("scale_limits")


def test_units_shards_and_manifest_follow_the_fleet():
    ten, thousand = scale.plan(10), scale.plan(1000)
    assert (ten["assets"], ten["units"]) == (10, 20)
    assert (thousand["assets"], thousand["units"]) == (1000, 2000)
    raw = 1000 * scale.ASSET_ROWS * scale.BYTES_OF_A_ROW
    assert raw / thousand["shards"] / 1e6 < 140  # about 128 MB, and whole units
    assert 0 < thousand["manifest_mb"] < 0.1
    assert thousand["index_mb"] < 8
    assert thousand["manifest_mb"] / ten["manifest_mb"] > 30


def test_more_workers_help_the_steps_that_are_said_to_gain():
    few, many = (limits.steps(1, workers) for workers in (100, 1000))
    for one, other in zip(few, many, strict=True):
        faster = one.seconds / other.seconds
        assert faster == pytest.approx(10, rel=0.01) if not one.limit else faster == 1, one.name
