"""What is told of targets over the windows of a split."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.transforms.records.targets import TargetTally, tally_targets
from beamfeed.transforms.sources.record_block import RecordBlock


@given(seed=st.integers(0, 1000), sizes=st.lists(st.integers(2, 9), min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_tallies_are_those_of_the_values_in_records(seed, sizes):
    rng = np.random.default_rng(seed)
    rows, windows = np.array(sizes), Windows(length=2)
    first = np.array([rng.integers(0, 12 - size) for size in sizes])
    fields = [
        Field(name="x", dtype="float32", role="input"),
        Field(name="of_rows", dtype="float32", role="target"),
        Field(name="of_windows", dtype="int64", role="target", per="window", classes=["a", "b", "c"]),
        Field(name="heavy", dtype="float32", shape=(2,), role="weight", per="record"),
    ]
    values = {
        "x": np.zeros(12, "f4"), "of_rows": rng.normal(size=12).astype("f4"),
        "of_windows": rng.integers(0, 3, (rows - 1).sum()), "heavy": rng.random((len(rows), 2)).astype("f4"),
    }  # fmt: skip
    found = tally_targets(RecordBlock("m", first, rows, values), fields, windows)
    told = np.concatenate([values["of_rows"][at : at + size] for at, size in zip(first, rows, strict=True)])
    target = found["of_rows"].target()
    np.testing.assert_allclose([target.mean, target.std], [told.mean(dtype="f8"), told.std(dtype="f8")], rtol=1e-6)
    assert (target.min, target.max) == (told.min(), told.max())
    assert found["of_windows"].target().counts == np.bincount(values["of_windows"], minlength=3).tolist()
    assert found["heavy"].target().max == values["heavy"].max()
    assert found.keys() == {"of_rows", "of_windows", "heavy"}


@pytest.mark.parametrize("classes", [[], ["a", "b"]])
def test_tallies_add_up(classes):
    field = Field(name="y", dtype="int64", role="target", per="window", classes=classes)
    values = np.array([0, 1, 1, 1, 0, 1, 1, 1])  # sums that floats hold exactly
    parts = [TargetTally.of(part, field) for part in np.split(values, [2, 4])]
    assert sum(parts, TargetTally.zero(field)) == TargetTally.of(values, field)
    assert TargetTally.zero(field).target().counts == [0] * len(classes)
