"""Answers of an exported model for series that never end: rows come in, in any order, and windows are cut from them."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.coders import BytesCoder, TupleCoder, VarIntCoder
from apache_beam.ml.inference.base import ModelHandler, RunInference
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.timestamp import Timestamp

from beamfeed.contract import storage
from beamfeed.contract.errors import UserError
from beamfeed.transforms.predictions.model import Exported, Model, load

BEFORE_ALL = np.iinfo(np.int64).min


@dataclass(frozen=True)
class History:
    """What is kept of an asset between two looks at it.

    Attributes:
      position: of its first row, counted from the first row of the asset.
      times: int64 `[rows]`, in microseconds.
      values: float32 `[rows, features]`.
      last: the time of the last row that was taken.
    """

    position: int
    times: np.ndarray
    values: np.ndarray
    last: int = BEFORE_ALL

    @classmethod
    def empty(cls, features: int) -> "History":
        return cls(0, np.empty(0, np.int64), np.empty((0, features), np.float32))


@dataclass(frozen=True)
class StreamWindow:
    """A window of an asset.

    Attributes:
      asset: its name.
      start: the position of its first row.
      time, until: of its first and last row, in microseconds.
      values: float32 `[length, features]`.
    """

    asset: str
    start: int
    time: int
    until: int
    values: np.ndarray


def cut(
    asset: str, history: History, times: np.ndarray, values: np.ndarray, length: int, stride: int, max_gap: int | None
) -> tuple[list[StreamWindow], History]:
    """The windows that new rows complete. As in a dataset, they begin at multiples of the stride and cross no gap.

    Args:
      asset: its name.
      history: of the rows before.
      times: int64 `[rows]`, rising, after `history.last`, in microseconds.
      values: float32 `[rows, features]`.
      length: rows of a window.
      stride: rows between the starts of windows.
      max_gap: microseconds between two rows of a window, at most.

    Returns:
      the windows, by rising start, and what is to be kept.
    """
    times, values = np.concatenate([history.times, times]), np.concatenate([history.values, values])
    gaps = np.flatnonzero(np.diff(times) > max_gap) + 1 if max_gap is not None else np.empty(0, np.int64)
    edges = [0, *gaps.tolist(), len(times)]
    windows = []
    for first, end in pairwise(edges):
        aligned = first + -(history.position + first) % stride
        windows += [
            StreamWindow(
                asset, history.position + at, int(times[at]), int(times[at + length - 1]), values[at : at + length]
            )
            for at in range(aligned, end - length + 1, stride)
        ]
    first_kept = max(edges[-2], len(times) - (length - 1))
    last = int(times[-1]) if len(times) else history.last
    return windows, History(history.position + first_kept, times[first_kept:], values[first_kept:], last)


def merge(blocks: Iterable[tuple[np.ndarray, np.ndarray]], after: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows of several blocks by rising time; of those with equal times the first, and none up to a time.

    Returns:
      times `[rows]`, values `[rows, features]`, and how many rows were too late or there already.
    """
    times, values = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    rising, first = np.unique(times, return_index=True)
    first = first[rising > after]
    return times[first], values[first], len(times) - len(first)


def _half(times: np.ndarray) -> int:
    """When to look at waiting rows: as half of them are due.

    So n rows need log2(n) looks, and one with a wrong time, far in the future, keeps no others waiting.
    """
    return int(times[(len(times) - 1) // 2])


_BLOCK = TupleCoder((BytesCoder(), BytesCoder()))


@beam.typehints.with_input_types(tuple[str, Any])
@beam.typehints.with_output_types(StreamWindow)
class CutWindows(beam.DoFn):
    """(asset, (times, values)) -> StreamWindow, as the watermark passes its rows."""

    WAITING = BagStateSpec("waiting", _BLOCK)
    HISTORY = ReadModifyWriteStateSpec("kept", TupleCoder((VarIntCoder(), VarIntCoder(), _BLOCK)))
    DUE = ReadModifyWriteStateSpec("due", VarIntCoder())
    TIMER = TimerSpec("complete", TimeDomain.WATERMARK)

    def __init__(self, features: int, length: int, stride: int, max_gap: int | None):
        self._features, self._length, self._stride, self._max_gap = features, length, stride, max_gap
        self._late = beam.metrics.Metrics.counter("beamfeed", "rows_late")

    def process(
        self, element: Any, waiting: Any = beam.DoFn.StateParam(WAITING), due: Any = beam.DoFn.StateParam(DUE),
        timer: Any = beam.DoFn.TimerParam(TIMER),
    ) -> Iterator[StreamWindow]:  # fmt: skip
        _, (times, values) = element
        times = np.asarray(times)
        if not times.size:
            return
        if times.dtype.kind not in "Miu":  # floats are seconds, mostly
            raise ValueError(f"times are {times.dtype}; they must be datetime64, or integers in microseconds")
        times = np.atleast_1d(times.astype("datetime64[us]").astype(np.int64) if times.dtype.kind == "M" else times)
        values = np.asarray(values, np.float32).reshape(len(times), -1)
        if values.shape[1] != self._features:
            raise ValueError(f"rows have {values.shape[1]} values, the model takes {self._features}")
        waiting.add((times.astype(np.int64).tobytes(), values.tobytes()))
        until, waits_for = _half(np.sort(times)), due.read()
        if waits_for is None or until < waits_for:
            self._wait(due, timer, until)
        yield from ()

    @on_timer(TIMER)
    def complete(
        self, asset: Any = beam.DoFn.KeyParam, now: Any = beam.DoFn.TimestampParam,
        waiting: Any = beam.DoFn.StateParam(WAITING), history_state: Any = beam.DoFn.StateParam(HISTORY),
        due: Any = beam.DoFn.StateParam(DUE), timer: Any = beam.DoFn.TimerParam(TIMER),
    ) -> Iterator[StreamWindow]:  # fmt: skip
        """All rows up to the time of the timer are there."""
        state = history_state.read()
        history = History.empty(self._features)
        if state is not None:
            position, last, block = state
            history = replace(History(position, *self._block(block)), last=last)
        times, values, late = merge(map(self._block, waiting.read()), history.last)
        self._late.inc(late)
        ready = int(np.searchsorted(times, int(now.micros), side="right"))
        windows, history = cut(asset, history, times[:ready], values[:ready], self._length, self._stride, self._max_gap)
        history_state.write((history.position, history.last, (history.times.tobytes(), history.values.tobytes())))
        waiting.clear()
        due.clear()
        if ready < len(times):
            waiting.add((times[ready:].tobytes(), values[ready:].tobytes()))
            self._wait(due, timer, _half(times[ready:]))
        yield from windows

    def _block(self, block: tuple[bytes, bytes]) -> tuple[np.ndarray, np.ndarray]:
        times, values = block
        return np.frombuffer(times, np.int64), np.frombuffer(values, np.float32).reshape(-1, self._features)

    @staticmethod
    def _wait(due: Any, timer: Any, until: int) -> None:
        due.write(until)
        timer.set(Timestamp(micros=-(-until // 1000) * 1000))  # runners keep whole milliseconds


class SavedModelHandler(ModelHandler[StreamWindow, dict[str, Any], Model]):
    """An exported model, for Beam's RunInference.

    Args:
      model: that was found.
    """

    def __init__(self, model: Exported):
        super().__init__()
        self._model = model

    def load_model(self) -> Model:
        return load(self._model)

    def run_inference(
        self, batch: Sequence[StreamWindow], model: Model, inference_args: dict[str, Any] | None = None
    ) -> Iterator[dict[str, Any]]:
        answers = model.answer_raw(np.stack([window.values for window in batch]), [window.asset for window in batch])
        for row, window in enumerate(batch):
            yield {
                "asset": window.asset,
                "start": window.start,
                "time": np.datetime64(window.time, "us"),
                "until": np.datetime64(window.until, "us"),
                **{name: answer[row] for name, answer in answers.items()},
            }


class PredictStream(beam.PTransform):
    """PCollection of (asset, (times, values)) -> PCollection of dict, what a model says of each window.

    `times` are `[rows]`, datetime64 or int64 in microseconds, `values` `[rows, features]` in the order and units of the
    files that the model was trained on; NaN is missing. Rows of an asset may come in any order: a window is cut when
    the watermark has passed its last row. Rows that come later, or with a time that was there, count as `rows_late`.

    Args:
      model: the folder of the SavedModel, local or gs://, of windows of a series.
      max_gap: seconds between two rows of a window, at most: `prepare.max_gap` of the job.

    Attributes:
      features: names of the values of a row, in order.

    Raises:
      UserError: if there is no model, or one of something else.

    Returns:
      dicts of `asset`, `start` (its position, from 0 at the first row that came), `time`, `until` (datetime64) and the
      outputs of the signature `serving_default`, such as `score`.
    """

    def __init__(self, model: str | os.PathLike[str], max_gap: float | None = None):
        super().__init__()
        # Absolute: it is loaded again by workers, whose folder may be another.
        self._model = Exported.at(storage.absolute(os.fspath(model)).rstrip("/"))
        loaded = load(self._model)
        if loaded.raw_window is None:
            raise UserError(f"{model}: is no model of windows of a series")
        self.features = [name.decode() for name in loaded.description["features"].tolist()]
        length, count = loaded.raw_window
        gap = None if max_gap is None else round(max_gap * 1e6)
        self._cut = CutWindows(count, length, int(loaded.description["stride"]), gap)

    def expand(self, rows: beam.PCollection) -> beam.PCollection:
        return (
            rows
            | "Global" >> beam.WindowInto(GlobalWindows())
            | "CutWindows" >> beam.ParDo(self._cut)
            | "Predict" >> RunInference(SavedModelHandler(self._model))
        )
