"""Windows of rows that come in pieces and in any order are those of all rows at once."""

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beamfeed.contract.errors import UserError
from beamfeed.transforms import streaming
from beamfeed.transforms.streaming import CutWindows, History, PredictStream, cut, merge


def plain(times: list[int], length: int, stride: int, max_gap: int | None) -> list[int]:
    """The first positions of windows, by a loop."""
    starts = []
    for start in range(0, len(times) - length + 1, stride):
        steps = [times[row + 1] - times[row] for row in range(start, start + length - 1)]
        if max_gap is None or all(step <= max_gap for step in steps):
            starts.append(start)
    return starts


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=40), st.lists(st.integers(0, 40), max_size=6), st.integers(1, 6),
    st.integers(1, 4), st.sampled_from([None, 1, 3]),
)  # fmt: skip
def test_pieces_give_the_windows_of_the_whole(steps, cuts, length, stride, max_gap):
    times = np.cumsum(steps)
    values = np.stack([times * 1.0, -times], axis=1).astype("f4")
    history, windows = History.empty(2), []
    edges = sorted({0, len(times), *(cut for cut in cuts if cut < len(times))})
    for first, end in pairwise(edges):
        more, history = cut("a", history, times[first:end], values[first:end], length, stride, max_gap)
        windows += more
        assert len(history.times) < max(length, 1)
    assert [one.start for one in windows] == plain(times.tolist(), length, stride, max_gap)
    for one in windows:
        assert (one.values == values[one.start : one.start + length]).all()
        assert (one.time, one.until) == (times[one.start], times[one.start + length - 1])
    assert history.last == times[-1]


def test_late_rows_and_those_that_come_twice():
    blocks = [(np.array([5, 3, 9]), np.array([[5.0], [3], [9]])), (np.array([3, 4]), np.array([[33.0], [4]]))]
    times, values, late = merge(blocks, 3)
    assert times.tolist() == [4, 5, 9]
    assert values.tolist() == [[4], [5], [9]]
    assert late == 2


def test_what_is_no_model(tmp_path):
    with pytest.raises(UserError, match="there is no exported model"):
        PredictStream(str(tmp_path))


def test_a_model_is_found_from_any_folder(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").touch()
    loaded = SimpleNamespace(raw_window=(4, 1), description={"features": np.array([b"x"]), "stride": 2})
    monkeypatch.setattr(streaming, "load", lambda _: loaded)
    monkeypatch.chdir(tmp_path)
    for path in ("model/", Path("model")):
        assert PredictStream(path)._model.folder == str(tmp_path / "model")


@pytest.mark.parametrize(
    "times", [[1_700_000_000.5, 1_700_000_001.5], ["2024-01-01", "2024-01-02"], 1.5, [True, False]]
)
def test_times_that_are_no_microseconds(times):
    rows = ("a", (times, np.zeros((np.size(times), 2))))
    with pytest.raises(ValueError, match=r"times are .*; they must be datetime64, or integers in microseconds"):
        list(CutWindows(2, length=3, stride=1, max_gap=None).process(rows))
    assert not list(CutWindows(2, length=3, stride=1, max_gap=None).process(("a", ([], np.zeros((0, 2))))))
