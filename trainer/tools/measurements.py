"""How fast a dataset feeds a training run: up to each stage of the feed, with each of its options, and a job's steps.

Every figure is that of the trainer's own graph (`beamfeed.trainer.feed.dataset.load_dataset`),
cut off after a stage or tuned otherwise, or of the trainer's own steps. It is measured again until it is steady.
"""

import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import psutil
import tensorflow as tf

from beamfeed.contract import storage
from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer.decode.preparation import Preparation
from beamfeed.trainer.feed.dataset import load_dataset
from beamfeed.trainer.feed.fields import data_fields, stored_bytes
from beamfeed.trainer.feed.options import Cache, CutOff, FeedOptions, Tuning
from beamfeed.trainer.feed.reader import BUFFER_BYTES
from beamfeed.trainer.feed.shards import Index
from beamfeed.trainer.loop.steps import WAITED
from beamfeed.trainer.tools.job_steps import make_job_steps
from beamfeed.trainer.tools.profile_report import Figure, OptionRate, StageRate, StepTimes

SPLIT: SplitName = "train"
CALL_SECONDS = 0.1  # between looks at the clock
LONGEST_EPOCH = 60.0  # seconds; what needs a longer one to be filled is not measured
STAGES = ("read", "CRC", "parse", "frame", "shuffle", "batch", "prefetch")
DECODE, AUGMENT = "decode", "augment"  # before the last of them, where a job's fields are decoded, and are augmented
OPTIONS = ("interleave", "parallel map", "prefetch", "cache memory", "cache file")
ROUNDS, MOST_ROUNDS = 3, 9  # of one figure: the last ones that must agree, and after how many it is given up
LEAST_STEPS = 16  # training steps in a call
NOTHING = Tuning(open_blocks=1, parallel=False, prefetch=False)

Say = Callable[[str], None]


@dataclass(frozen=True)
class Feeding:
    """What is measured.

    Attributes:
      batch_size: windows in a batch.
      shuffle: windows mixed at a time.
      seconds: that each measurement takes, after its warm-up.
      preparation: how a job decodes fields.
    """

    manifest: Manifest
    output: str
    batch_size: int
    shuffle: int
    seconds: float
    preparation: Preparation | None = None

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of those that are measured, in order."""
        if self.preparation is None:
            return STAGES
        more = (DECODE, AUGMENT) if self.preparation.training.augments else (DECODE,)
        return (*STAGES[:-1], *more, STAGES[-1])

    def load(self, shuffle: int | None = None, **options: Any) -> tf.data.Dataset:
        """Batches without end, shuffled and prepared as in training unless it is said otherwise."""
        prepared = self.preparation and self.preparation.training
        return load_dataset(
            self.output,
            SPLIT,
            batch_size=self.batch_size,
            shuffle=self.shuffle if shuffle is None else shuffle,
            epochs=None,
            options=FeedOptions(**{"manifest": self.manifest, "preparation": prepared, **options}),
        )

    def read_bytes(self) -> tf.data.Dataset:
        """The bytes of the shards as they are, a buffer at a time, but for what is left over at the end of each."""

        def pieces(path: tf.Tensor, size: tf.Tensor) -> tf.data.Dataset:
            piece = tf.minimum(size, BUFFER_BYTES)
            return tf.data.FixedLengthRecordDataset(path, piece, footer_bytes=size % piece, buffer_size=BUFFER_BYTES)

        paths = self.manifest.shard_paths(self.output, SPLIT)
        sizes = tf.constant([shard.bytes for shard in self.manifest.splits[SPLIT].shards], tf.int64)
        open_files = Tuning.open_blocks
        return tf.data.Dataset.from_tensor_slices((paths, sizes)).interleave(
            pieces, cycle_length=open_files, num_parallel_calls=open_files, deterministic=False
        )

    @property
    def bytes_per_window(self) -> float:
        """Of the shards."""
        info = self.manifest.splits[SPLIT]
        return info.bytes / info.windows


def first_read(feeding: Feeding) -> float:
    """Windows per second of reading the shards' bytes once, at most `seconds` long, without the page cache's help.

    The system is asked to forget the files. Where it cannot be (remote files, other systems) they are read as they are.
    """
    paths = feeding.manifest.shard_paths(feeding.output, SPLIT)
    if not storage.is_remote(feeding.output) and hasattr(os, "posix_fadvise"):
        for path in paths:
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    pieces = iter(feeding.read_bytes())  # the graph is built here; nothing is read yet
    size, began = 0, time.perf_counter()
    for piece in pieces:
        size += len(piece.numpy())
        if time.perf_counter() - began > feeding.seconds:
            break
    return size / feeding.bytes_per_window / (time.perf_counter() - began)


def measure_stages(feeding: Feeding, announce: Say) -> list[StageRate]:
    """The rates up to each of the stages, in order."""
    info = feeding.manifest.splits[SPLIT]
    per_record = info.windows / info.records
    cut = CutOff(prefetch=False)
    cuts: dict[str, tuple[dict[str, Any], Callable[..., Any]]] = {
        "CRC": (
            {"tuning": replace(cut, until="records"), "shuffle": 0},
            lambda records: (_length(records) - 1) * per_record,
        ),
        "parse": (
            {"tuning": replace(cut, until="parse"), "shuffle": 0},
            lambda _, rows, __: (_length(rows) - 1) * per_record,
        ),
        "frame": ({"tuning": replace(cut, until="frame"), "shuffle": 0}, lambda _, at, __: _windows(at)),
        "shuffle": ({"tuning": replace(cut, until="frame")}, lambda _, at, __: _windows(at)),
        "batch": ({"preparation": None}, _windows),
        DECODE: ({"preparation": feeding.preparation}, _windows),
        AUGMENT: ({}, _windows),
        "prefetch": ({"tuning": replace(cut, prefetch=True)}, _windows),
    }
    announce("stage read")
    pieces = feeding.read_bytes().repeat()
    rates = [measure(pieces, lambda piece: _size(piece) / feeding.bytes_per_window, feeding.seconds)]
    for name in feeding.stages[1:]:
        options, count = cuts[name]
        announce(f"stage {name}")
        rates.append(measure(feeding.load(**{"tuning": cut, **options}), count, feeding.seconds))
    extra = extra_times([rate.value for rate in rates])
    return [
        StageRate(name, rate.value, rate.value * feeding.bytes_per_window / 1e6, more, rate.spread)
        for name, rate, more in zip(feeding.stages, rates, extra, strict=True)
    ]


def extra_times(rates: Sequence[float]) -> list[float]:
    """Microseconds per window that each stage adds; they add up to those of the last rate.

    A stage can be faster than the one before it: what waits there is hidden once
    something runs beside it. So no stage counts more than any later one takes.
    """
    spent = list(itertools.accumulate((1e6 / rate for rate in reversed(rates)), min))[::-1]
    return [after - before for before, after in itertools.pairwise([0.0, *spent])]


def measure_options(feeding: Feeding, trained: float, announce: Say) -> tuple[float, list[OptionRate]]:
    """The rate without any option, and what each of OPTIONS is worth.

    Args:
      feeding: what is measured.
      trained: windows per second with the options as in training; says how long an epoch takes.
      announce: is told what is being measured.
    """
    announce("no option")
    rate = partial(_rate, feeding)
    plain = rate(tuning=NOTHING).value
    tunings = {
        "interleave": (replace(NOTHING, open_blocks=Tuning.open_blocks), replace(Tuning(), open_blocks=1)),
        "parallel map": (replace(NOTHING, parallel=True), replace(Tuning(), parallel=False)),
        "prefetch": (replace(NOTHING, prefetch=True), replace(Tuning(), prefetch=False)),
    }
    options = []
    for name in OPTIONS:
        announce(f"option {name}")
        if name in tunings:
            alone, flipped = tunings[name]
            options.append(_option(name, rate(tuning=alone), rate(tuning=flipped)))
        else:
            options.append(_measure_cache(feeding, name, min(plain, trained)))
    return plain, options


def _measure_cache(feeding: Feeding, name: str, slowest: float) -> OptionRate:
    """A cache is filled before the first batch."""
    kind: Cache = "memory" if name == "cache memory" else "file"
    seconds = feeding.manifest.splits[SPLIT].windows / slowest
    if seconds > LONGEST_EPOCH:
        return OptionRate(name, None, None, f"not measured: filling it would take {seconds:,.0f} s")
    free = psutil.virtual_memory().available if kind == "memory" else psutil.disk_usage(tempfile.gettempdir()).free
    memory = 2 * cached_bytes(feeding)
    if memory > free / 2:
        return OptionRate(name, None, None, f"not measured: {memory / 1e9:,.1f} GB for it, {free / 1e9:,.1f} free")
    alone, flipped = (_rate(feeding, tuning=replace(tuning, cache=kind)) for tuning in (NOTHING, Tuning()))
    return _option(name, alone, flipped)


def _option(name: str, alone: Figure, flipped: Figure) -> OptionRate:
    return OptionRate(name, alone.value, flipped.value, spread=max(alone.spread, flipped.spread))


def cached_bytes(feeding: Feeding) -> int:
    """What a cache of the split's records takes, about: they are not compressed in it."""
    data_bytes = int(Index.read(feeding.output, feeding.manifest, SPLIT).bytes.sum())
    return stored_bytes(feeding.manifest.splits[SPLIT], data_fields(feeding.manifest), data_bytes)


def _rate(feeding: Feeding, **options: Any) -> Figure:
    return measure(feeding.load(**options), _windows, feeding.seconds)


def measure(dataset: tf.data.Dataset, count: Callable[..., Any], seconds: float) -> Figure:
    """Windows per second that a dataset without end gives, to a consumer that does nothing; until they are steady.

    The consumer is a loop inside a graph: Python would take longer for a small
    element than the feed.

    Args:
      dataset: without end.
      count: (components of an element) -> its windows, float64 scalar.
      seconds: to measure, after a quarter of that; three times as long where the rate is not steady.
    """

    @tf.function(autograph=False)
    def consume(iterator: Any, elements: tf.Tensor) -> tf.Tensor:
        def consume_next(number: tf.Tensor, windows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            element = next(iterator)
            return number + 1, windows + (count(*element) if isinstance(element, tuple) else count(element))

        nothing = tf.zeros([], tf.float64)
        return tf.while_loop(lambda number, _: number < elements, consume_next, (0, nothing))[1]

    with tf.device("CPU"):
        calls = _calls(partial(consume, iter(dataset)))
        _run(calls, seconds / 4, 0)

        def measure_round() -> list[float]:
            windows, spent = _run(calls, seconds / ROUNDS, 1)
            return [windows / spent]

        (figure,) = until_steady(measure_round)
    return figure


def _calls(consume: Callable[[tf.Tensor], tf.Tensor]) -> Iterator[tuple[float, float]]:
    """Calls of about CALL_SECONDS each: their windows and seconds."""
    elements = 1
    consume(tf.constant(elements))  # is traced
    while True:
        began = time.perf_counter()
        windows = float(consume(tf.constant(elements)))
        spent = time.perf_counter() - began
        yield windows, spent
        if spent < CALL_SECONDS / 2:
            elements *= 2
        elif spent > 2 * CALL_SECONDS:
            elements = max(1, elements // 2)


def _run(calls: Iterator[tuple[float, float]], seconds: float, least: int) -> tuple[float, float]:
    """Windows and seconds of as many calls as take `seconds` and give `least` windows."""
    windows = spent = 0.0
    while spent < seconds or windows < least:
        more, took = next(calls)
        windows, spent = windows + more, spent + took
    return windows, spent


def figure_of(rounds: Sequence[float]) -> Figure:
    """The figure that the last rounds make."""
    last = rounds[-ROUNDS:]
    middle = statistics.median(last)
    return Figure(middle, (max(last) - min(last)) / middle if middle else 0.0)


def until_steady(measure: Callable[[], Sequence[float]]) -> list[Figure]:
    """Measures several things in turn, so that what slows the machine down slows them all, until they are steady.

    Args:
      measure: a round: a number for each of them.
    """
    rounds: list[Sequence[float]] = []
    while True:
        rounds.append(measure())
        figures = [figure_of(figure_rounds) for figure_rounds in zip(*rounds, strict=True)]
        if len(rounds) >= ROUNDS and (all(figure.is_steady for figure in figures) or len(rounds) >= MOST_ROUNDS):
            return figures


def measure_steps(job: TrainingJob, manifest: Manifest, seconds: float) -> StepTimes:
    """Trains the job's model for a few seconds, on this machine's devices, and keeps nothing.

    It runs the trainer's own steps, many in a call, which take the time of waiting.

    Args:
      job: `output.path` is where the dataset is.
      manifest: of that dataset.
      seconds: that each of the two measurements takes, after a quarter of it to warm up; three times as long where
        they are not steady.
    """
    trained = make_job_steps(job, manifest)
    strategy = trained.cluster.strategy
    batch = next(trained.batches)
    first = tf.data.Dataset.from_tensors(strategy.experimental_local_results(batch)[0]).repeat().prefetch(2)
    same = iter(strategy.distribute_datasets_from_function(lambda _: first))

    def run(batches: Any, steps: int) -> float:
        return float(trained.run(batches, steps)[WAITED])

    for batches in (same, trained.batches):
        _run_steps(run, batches, seconds / 4)  # is traced, and gets warm

    def measure_round() -> list[float]:
        times = [_run_steps(run, batches, seconds / ROUNDS) for batches in (same, trained.batches)]
        waited.append([of_waiting for _, of_waiting in times])
        return [seconds_ for seconds_, _ in times]

    waited: list[list[float]] = []
    alone, fed = until_steady(measure_round)
    asking, waiting = (statistics.median(times_) for times_ in zip(*waited[-ROUNDS:], strict=True))
    spread = max(alone.spread, fed.spread)
    return StepTimes(alone.value - asking, fed.value, waiting, asking, strategy.num_replicas_in_sync, spread)


def _run_steps(run: Callable[..., float], batches: Any, seconds: float) -> tuple[float, float]:
    """The mean seconds of a step with taking its batch, and of taking it, in so many seconds."""
    steps = LEAST_STEPS
    count, waited, began = 0, 0.0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        count, waited = count + steps, waited + run(batches, steps)
    return spent / count, waited / count


def _size(piece: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.strings.length(piece), tf.float64)


def _length(values: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
    return tf.cast(values.nrows() if isinstance(values, tf.RaggedTensor) else tf.shape(values)[0], tf.float64)


def _windows(batch: dict[str, tf.Tensor | tf.RaggedTensor]) -> tf.Tensor:
    """How many there are, of the fields or the places of each."""
    return _length(next(iter(batch.values())))
