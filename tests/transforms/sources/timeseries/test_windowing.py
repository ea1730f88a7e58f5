"""Runs, segments and blocks against a plain loop over rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from series import MISSING, drawn_rows, unlabelled

from beamfeed.contract.config.prepare import Missing, Windows
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.transforms.sources.timeseries.impute import impute, reach
from beamfeed.transforms.sources.timeseries.rows import Rows
from beamfeed.transforms.sources.timeseries.windowing import (
    Windowing,
    cut_segments,
    find_runs,
    find_windows,
    iter_blocks,
)


def plain_windows(rows: Rows, values: np.ndarray, valid: np.ndarray, length: int, stride: int) -> dict[int, np.ndarray]:
    """Each window at its position, found row by row."""
    found = {}
    for first in range(len(rows) - length + 1):
        if rows.position[first] % stride or not valid[first : first + length].all():
            continue
        inside = range(first + 1, first + length)
        if all(not rows.gap[i] and rows.position[i] == rows.position[i - 1] + 1 for i in inside):
            found[int(rows.position[first])] = values[first : first + length]
    return found


def plain_fill(rows: Rows, missing: Missing) -> tuple[np.ndarray, np.ndarray]:
    """Filling value by value."""
    values = rows.values.copy()
    joined = [i > 0 and not rows.gap[i] and rows.position[i] == rows.position[i - 1] + 1 for i in range(len(rows))]
    for column in range(values.shape[1]):
        i = 0
        while i < len(rows):
            if not np.isnan(rows.values[i, column]):
                i += 1
                continue
            end = i + 1
            while end < len(rows) and joined[end] and np.isnan(rows.values[end, column]):
                end += 1
            has_left = joined[i] and not np.isnan(rows.values[i - 1, column])
            has_right = end < len(rows) and joined[end]
            if missing.fill == "forward" and has_left:
                values[i : min(end, i + missing.limit), column] = rows.values[i - 1, column]
            if missing.fill == "linear" and has_left and has_right and end - i <= missing.limit:
                low, high = float(rows.values[i - 1, column]), float(rows.values[end, column])
                for k in range(i, end):
                    values[k, column] = low + (high - low) * ((k - i + 1) / (end - i + 1))
            i = end
    if missing.fill == "constant" or (missing.fill != "drop" and missing.then == "constant"):
        values = np.where(np.isnan(values), np.float32(missing.value), values)
    return values, ~np.isnan(values).any(axis=1)


@given(
    rows=drawn_rows(2),
    length=st.integers(1, 9),
    stride=st.integers(1, 12),
    per_segment=st.integers(1, 4),
    missing=MISSING,
    chunk=st.integers(1, 50),
    start=st.none() | st.integers(-60, 620),
)
@settings(max_examples=400, deadline=None)
def test_blocks_fill_and_segments_give_the_windows_of_a_plain_loop(
    rows, length, stride, per_segment, missing, chunk, start
):
    fill_rows = reach(missing)
    span = per_segment * stride
    windowing = Windowing(
        length=length,
        stride=stride,
        windows_per_segment=per_segment,
        block=-(-4 * (length + 2 * fill_rows) // span) * span,
        before=fill_rows,
        after=length - 1 + (fill_rows if missing.fill == "linear" else 0),
    )
    found = {}
    stream = (rows.take(slice(at, at + chunk)) for at in range(0, len(rows), chunk))
    for block, own in iter_blocks(stream, windowing, (start, None)):
        assert len(block) <= windowing.block + windowing.before + windowing.after
        values, valid = impute(block, missing)
        segments = cut_segments(find_windows(block, valid, windowing, own), windowing)
        counted = 0
        for first, size in zip(segments.first, segments.rows, strict=True):
            assert block.position[first] % stride == 0
            assert (size - length) // stride + 1 <= per_segment
            for at in range(first, first + size - length + 1, stride):
                position = int(block.position[at])
                assert position not in found, "a window in two segments"
                found[position] = values[at : at + length]
                counted += 1
        assert counted == count_windows(segments.rows, length, stride).sum()
    expected = plain_windows(rows, *plain_fill(rows, missing), length, stride)
    expected = {position: window for position, window in expected.items() if start is None or position >= start}
    assert found.keys() == expected.keys()
    for position, window in expected.items():
        np.testing.assert_array_equal(found[position], window)


def test_rows_before_those_that_are_needed_are_not_held(monkeypatch):
    windowing = Windowing(length=4, stride=1, windows_per_segment=2, block=20, before=3, after=3)
    chunks = [np.arange(at, at + 10) for at in range(0, 2000, 10)]
    stream = (unlabelled(at, at, np.zeros((10, 1), "f4"), np.zeros(10, bool)) for at in chunks)
    held, concatenate = [], Rows.concatenate
    monkeypatch.setattr(Rows, "concatenate", lambda rows: held.append(sum(map(len, rows))) or concatenate(rows))
    owned = [own for _, own in iter_blocks(stream, windowing, (1901, None))]
    assert owned[0] == (1901, 1920)
    assert max(held) <= windowing.block + windowing.before + windowing.after + 2 * 10


def test_runs():
    position = np.array([0, 1, 2, 3, 7, 8, 9])
    gap = np.array([1, 0, 0, 0, 0, 0, 1], bool)
    rows = unlabelled(position, position, np.zeros((7, 1), "f4"), gap)
    starts, ends = find_runs(rows, np.array([1, 1, 0, 1, 1, 1, 1], bool))
    assert list(zip(starts, ends, strict=True)) == [(0, 2), (3, 4), (4, 6), (6, 7)]


@pytest.mark.parametrize(("length", "features"), [(1, 1), (30, 24), (64, 8), (5000, 3), (1000, 2000)])
def test_sizes_follow_from_the_windows(length, features):
    windowing = Windowing.of(Windows(length=length, stride=1), features, single=False, fill_rows=6, linear=True)
    rows = windowing.windows_per_segment + length - 1
    assert rows * features * 4 <= max(4 << 20, length * features * 4) + 4 * features
    assert windowing.block % windowing.windows_per_segment == 0
    assert windowing.block >= length + 2 * windowing.before
    assert Windowing.of(Windows(length=length), features, single=True).windows_per_segment == 1
