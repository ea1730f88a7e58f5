"""The rows behind windows against a plain loop over the whole asset, however the asset is cut."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from series import MISSING, drawn_rows

from beamfeed.contract.config.label import Label
from beamfeed.contract.config.prepare import Missing, Windows
from beamfeed.contract.errors import UserError
from beamfeed.transforms.sources.timeseries.ahead import RowsAhead, ahead_fields, find_ahead, keep_known, scale_beside
from beamfeed.transforms.sources.timeseries.impute import impute, reach
from beamfeed.transforms.sources.timeseries.resample import resample_stream
from beamfeed.transforms.sources.timeseries.rows import Rows
from beamfeed.transforms.sources.timeseries.windowing import Windowing, cut_segments, find_windows, iter_blocks
from beamfeed.transforms.statistics.moments import Moments


def plain_futures(
    rows: Rows, raw: np.ndarray, valid: np.ndarray, missing: Missing, ahead: list[RowsAhead], length: int, stride: int
) -> dict[int, list[np.ndarray]]:
    """The rows behind each window, by the position of the window, found window by window."""
    by_position = {}
    most = max(label.rows for label in ahead)
    for first in range(len(rows) - length - most + 1):
        frame = range(first, first + length + most)
        follows = all(not rows.gap[i] and rows.position[i] == rows.position[i - 1] + 1 for i in frame[1:])
        if rows.position[first] % stride or not follows or not all(valid[i] for i in frame):
            continue
        if missing.fill == "linear" and np.isnan(rows.values[first + length - 1]).any():
            continue  # the line was drawn to a row that is to be forecast
        futures, column = [], 0
        for label in ahead:
            columns = raw[:, column : column + len(label.places)]
            futures.append(columns[first + length : first + length + label.rows])
            column += len(label.places)
        if not any(np.isnan(future).any() for future in futures):
            by_position[int(rows.position[first])] = futures
    return by_position


AHEAD = st.sampled_from([[((0, 1, 2), 3)], [((1,), 1)], [((2, 0), 6)], [((0,), 2), ((1, 2), 5)]]).map(
    lambda pairs: [RowsAhead(f"label_{i}", rows, places) for i, (places, rows) in enumerate(pairs)]
)


@given(
    rows=drawn_rows(3), ahead=AHEAD, length=st.integers(1, 9), stride=st.integers(1, 6), missing=MISSING,
    single=st.booleans(), chunk=st.integers(1, 50), every=st.sampled_from([None, 10, 25]),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_rows_behind_windows_are_those_of_a_plain_loop_however_blocks_are_cut(
    rows, ahead, length, stride, missing, single, chunk, every
):
    values = scale_beside(rows.values, lambda values: values * 2 + 1, ahead)
    both = replace(rows, values=values)
    if every is not None:
        both = Rows.concatenate(list(resample_stream(iter([both]), every, "mean", 2)))
        expected_raw = (both.values[:, :3] - 1) / 2  # the mean of scaled values, turned back
        places = [place for label in ahead for place in label.places]
        np.testing.assert_allclose(both.values[:, 3:], expected_raw[:, places], rtol=1e-4, atol=1e-5)
    plain = replace(both, values=both.values[:, :3])
    _, valid = impute(plain, missing)
    expected = plain_futures(plain, both.values[:, 3:], valid, missing, ahead, length, stride)

    most = max(label.rows for label in ahead)
    windowing = Windowing.of(
        Windows(length=length + most, stride=stride), 200_000, single=single, fill_rows=reach(missing),
        linear=missing.fill == "linear", targets=most,
    )  # fmt: skip
    assert (windowing.inputs, windowing.length) == (length, length + most)
    by_position = {}
    for block, own in iter_blocks((both.take(slice(at, at + chunk)) for at in range(0, len(both), chunk)), windowing):
        raw, features = block.values[:, 3:], replace(block, values=block.values[:, :3])
        _, valid = impute(features, missing)
        is_filled = np.isnan(features.values).any(axis=1) if missing.fill == "linear" else None
        runs = keep_known(find_windows(features, valid, windowing, own), raw, is_filled, ahead, windowing)
        segments = cut_segments(runs, windowing)
        for first, size in zip(segments.first, segments.rows, strict=True):
            for at in range(first, first + size - windowing.length + 1, stride):
                position = int(block.position[at])
                assert position not in by_position, "a window in two segments"
                column, futures = 0, []
                for label in ahead:
                    future = slice(at + length, at + length + label.rows)
                    futures.append(raw[future, column : column + len(label.places)])
                    column += len(label.places)
                by_position[position] = futures
    assert by_position.keys() == expected.keys()
    for position, futures in expected.items():
        for one, other in zip(futures, by_position[position], strict=True):
            np.testing.assert_array_equal(one, other)


def test_columns_are_those_of_the_features_in_the_order_of_the_job():
    label = Label.model_validate({"ahead": {"rows": 4, "columns": ["b", "a*"]}})
    every = Label.model_validate({"name": "all", "ahead": {"rows": 2}})
    plain = Label.model_validate({"name": "y", "column": "y"})
    assert find_ahead([label, plain, every], ["a1", "b", "a2"]) == (
        RowsAhead("label", 4, (1, 0, 2)),
        RowsAhead("all", 2, (0, 1, 2)),
    )
    wrong = Label.model_validate({"ahead": {"rows": 4, "columns": ["presure"]}})
    with pytest.raises(UserError) as caught:
        find_ahead([wrong], ["pressure", "flow"])
    assert str(caught.value) == (
        "label.ahead.columns: 'presure' is none of source.features; did you mean 'pressure'? (they are: pressure, flow)"
    )


def test_the_field_says_what_its_columns_count_in():
    rows = np.array([[1, 5, 7], [3, 5, 9], [5, 5, 8]], "f4")
    scale = np.array([[1, 5, 8], [4, 1, 2]], "f4")
    (field,) = ahead_fields([RowsAhead("later", 4, (2, 1))], ["a", "b", "c"], 10, Moments.of(rows), scale)
    assert (field.part, field.columns, field.role, field.per) == ((10, 14), ["c", "b"], "target", "row")
    assert [unit.std for unit in field.units] == [pytest.approx(np.std([7, 9, 8])), 0]
    assert [(unit.offset, unit.divisor) for unit in field.units] == [(8, 2), (5, 1)]
