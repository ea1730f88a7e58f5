"""Labels of windows against a plain loop over the whole asset, however the asset is cut."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from series import MISSING, drawn_rows

from beamfeed.contract.config.label import Label
from beamfeed.contract.config.prepare import Missing
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.transforms.sources.timeseries.impute import impute, reach
from beamfeed.transforms.sources.timeseries.preprocess import label_windows
from beamfeed.transforms.sources.timeseries.resample import resample_stream
from beamfeed.transforms.sources.timeseries.rows import Rows
from beamfeed.transforms.sources.timeseries.windowing import Windowing, cut_segments, find_windows, iter_blocks


def plain_labels(rows: Rows, valid: np.ndarray, labels: list[Label], length: int, stride: int, end: int) -> dict:
    """Position of each window with a value for every label -> those values, found row by row."""
    found = {}
    joined = [i > 0 and not rows.gap[i] and rows.position[i] == rows.position[i - 1] + 1 for i in range(len(rows))]

    def is_run(first: int, last: int) -> bool:
        inside = range(first, last + 1)
        return last < len(rows) and all(valid[i] for i in inside) and all(joined[i] for i in inside[1:])

    for first in range(len(rows)):
        last = first + length - 1
        values, column = [], 0
        if rows.position[first] % stride or not is_run(first, last + max(label.reach for label in labels)):
            continue
        for label in labels:
            if label.derive:
                value = float(end - rows.position[last])
            else:
                told = rows.labels[:, column]
                column += 1
                if label.at == "any":
                    present = [float(told[i]) for i in range(first, last + 1) if not math.isnan(told[i])]
                    value = max(present) if present else math.nan
                else:
                    value = float(told[last + label.reach])
            values.append(min(value, label.cap) if label.cap is not None and not math.isnan(value) else value)
        if not any(map(math.isnan, values)):
            found[int(rows.position[first])] = values
    return found


LABELS = st.lists(
    st.one_of(
        st.builds(Label, column=st.just("y"), at=st.sampled_from(["end", "any"]), cap=st.sampled_from([None, 2.0])),
        st.builds(Label, column=st.just("y"), at=st.just("horizon"), horizon=st.integers(1, 12)),
        st.builds(Label, derive=st.just("remaining_life"), cap=st.sampled_from([None, 40.0])),
    ),
    min_size=1,
    max_size=3,
)


def windows_of(stream, labels, missing, windowing, end):
    """Each window of a stream: its position, rows and labels, cut as preprocessing cuts it."""
    found = {}
    for block, own in iter_blocks(stream, windowing):
        _, valid = impute(block, missing)
        runs, told = label_windows(find_windows(block, valid, windowing, own), block, labels, windowing, end)
        segments = cut_segments(runs, windowing)
        assert count_windows(segments.rows, windowing.length, windowing.stride).sum() == len(told)
        told = iter(told.tolist())
        for first, size in zip(segments.first, segments.rows, strict=True):
            assert (size - windowing.length) // windowing.stride + 1 <= windowing.windows_per_segment
            for at in range(first, first + size - windowing.length + 1, windowing.stride):
                position = int(block.position[at])
                assert position not in found, "a window in two segments"
                found[position] = next(told)
    return found


def sizes(length, stride, per_segment, missing, labels, blocks=1):
    fill, ahead, span = reach(missing), max(label.reach for label in labels), per_segment * stride
    return Windowing(
        length=length,
        stride=stride,
        windows_per_segment=per_segment,
        block=-(-blocks * (length + 2 * fill) // span) * span,
        before=fill,
        after=length - 1 + ahead + (fill if missing.fill == "linear" else 0),
        ahead=ahead,
    )


@given(
    data=st.data(), labels=LABELS, length=st.integers(1, 9), stride=st.integers(1, 12), per_segment=st.integers(1, 4),
    missing=MISSING, chunk=st.integers(1, 50), blocks=st.integers(1, 5), end=st.integers(600, 700),
)  # fmt: skip
@settings(max_examples=120, deadline=None)
def test_labels_are_those_of_a_plain_loop_however_blocks_are_cut(
    data, labels, length, stride, per_segment, missing, chunk, blocks, end
):
    rows = data.draw(drawn_rows(2, sum(label.column is not None for label in labels)))
    stream = (rows.take(slice(at, at + chunk)) for at in range(0, len(rows), chunk))
    found = windows_of(stream, labels, missing, sizes(length, stride, per_segment, missing, labels, blocks), end)
    _, valid = impute(rows, missing)
    assert found == plain_labels(rows, valid, labels, length, stride, end)


@given(
    data=st.data(), labels=LABELS, length=st.integers(1, 6), stride=st.integers(1, 5), chunk=st.integers(1, 50),
    every=st.integers(1, 60), limit=st.integers(0, 4),
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_steps_of_a_grid_have_the_label_of_their_last_row_and_repeat_it(
    data, labels, length, stride, chunk, every, limit
):
    rows = data.draw(drawn_rows(2, sum(label.column is not None for label in labels)))
    missing = Missing(fill="constant")
    stream = (rows.take(slice(at, at + chunk)) for at in range(0, len(rows), chunk))
    grid = Rows.concatenate(list(resample_stream(stream, every, "last", limit)))
    last = {}  # the label of the last row of each step, or of the step before a hole
    for time, label in zip(rows.time, rows.labels, strict=True):
        last[int(time) // every] = label
    for position, label in zip(grid.position, grid.labels, strict=True):
        held = last.get(int(position))
        expected = held if held is not None else last[max(step for step in last if step < position)]
        np.testing.assert_array_equal(label, expected)
    windowing = sizes(length, stride, 2, missing, labels)
    found = windows_of(iter([grid]), labels, missing, windowing, 10_000)
    assert found == plain_labels(grid, np.ones(len(grid), bool), labels, length, stride, 10_000)


@pytest.mark.parametrize("length", [1, 2, 7, 40])
def test_any_is_the_highest_label_that_is_present(length):
    told = np.array([np.nan, 1, np.nan, 3, 2, np.nan, np.nan, np.nan] * 6, "f4")[:, None]
    size = len(told)
    rows = Rows(np.arange(size), np.arange(size), np.zeros((size, 1), "f4"), np.zeros(size, bool), told)
    labels, missing = [Label(column="y", at="any")], Missing()
    found = windows_of(iter([rows]), labels, missing, sizes(length, 1, 1, missing, labels), 0)
    assert found == plain_labels(rows, np.ones(size, bool), labels, length, 1, 0)
