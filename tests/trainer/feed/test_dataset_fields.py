"""The feed with fields of every dtype and shape, against a plain loop over the shards: what belongs together stays."""

import ast
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from datasets import write_dataset
from feeds import arguments, flip
from hypothesis import given, settings
from hypothesis import strategies as st
from records import FIELDS, as_tuples, make_record, make_records, rows_of, windows_of
from sampling import sample

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import LISTED, Field
from beamfeed.contract.errors import UserError
from beamfeed.trainer.feed import batching
from beamfeed.trainer.feed.dataset import load_dataset
from beamfeed.trainer.feed.options import FeedOptions, Tuning
from beamfeed.trainer.feed.read_errors import explained
from beamfeed.trainer.feed.sharding import Distribution

NAMES = [field.name for field in FIELDS]
ROWS = [[9, 5, 12, 4], [], [7, 30, 6], [4]]
SERIES, SINGLE = Windows(length=4, stride=2), Windows(length=1)


class Made:
    """A dataset, and its windows as a plain loop over the shards finds them."""

    def __init__(self, output, windows, compression="none", fields=FIELDS, rows=ROWS):
        self.output, self.names = str(output), [field.name for field in fields]
        shards = make_records(fields, rows, windows)
        self.manifest = write_dataset(self.output, fields, {"train": shards}, windows, compression=compression)
        self.windows = list(windows_of(self.manifest, self.output, "train", self.names))

    def load(self, *, worker=0, workers=1, replicas=1, cache="none", **options):
        given = {"batch_size": 4, "fields": self.names, **options, "tuning": Tuning(cache=cache)}
        given["distribution"] = Distribution(worker, workers, replicas)
        return load_dataset(self.output, "train", **arguments(**given))

    def read(self, **options):
        """Batches as lists of windows; of padded ones without what was filled in."""
        batches = []
        for found in self.load(**options):
            batch, weights = found if isinstance(found, tuple) else (found, None)
            rows = rows_of(batch, self.names)
            if weights is not None:
                assert all(not any(map(filled, row)) for row, weight in zip(rows, weights, strict=True) if not weight)
                rows = [row for row, weight in zip(rows, weights, strict=True) if weight]
            batches.append(rows)
        return batches


def filled(value) -> bool:
    """Whether there is anything but zeros, empty strings and values without entries."""
    return any(map(filled, value)) if isinstance(value, tuple) else bool(value)


def flat(batches):
    return list(itertools.chain(*batches))


@pytest.fixture(params=[SERIES, SINGLE], ids=["series", "single"])
def made(request, tmp_path):
    return Made(tmp_path / "data", request.param)


def test_without_shuffling_every_field_of_every_window_comes_in_order(made):
    assert len(made.windows) == (29 if made.manifest.windows.length == 4 else 77)
    assert flat(made.read(remainder="pad")) == made.windows


@pytest.mark.parametrize("cache", ["none", "memory"])
def test_a_window_tells_where_in_its_record_it_is(made, cache):
    windows = made.manifest.windows
    expected = [
        [first, rows]
        for shard in ROWS
        for rows in shard
        for first in range(0, rows - windows.length + 1, windows.stride)
    ]
    batches = made.load(fields=["label", ".place"], remainder="pad", cache=cache)
    found = [place.tolist() for batch, weights in batches for place in batch[".place"].numpy()[weights.numpy() > 0]]
    assert found == expected


@pytest.mark.parametrize(
    ("windows", "compression", "cache"),
    [(SERIES, "none", "none"), (SINGLE, "gzip", "memory"), (SINGLE, "none", "file")],
)
def test_a_shuffled_epoch_holds_each_window_once(tmp_path, windows, compression, cache):
    made = Made(tmp_path, windows, compression)
    found = flat(made.read(shuffle=20, remainder="pad", cache=cache))
    assert found != made.windows
    assert Counter(found) == Counter(made.windows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "replicas"),
    [pytest.param(1, 2, marks=pytest.mark.long), pytest.param(2, 1, marks=pytest.mark.long), (3, 2)],
)
def test_workers_share_the_batches_of_one(made, workers, replicas):
    options = {"batch_size": 7, "shuffle": 20, "epochs": 2}
    alone = made.read(**options)
    parts = [made.read(worker=i, workers=workers, replicas=replicas, **options) for i in range(workers)]
    steps = [flat(batch for part in parts for batch in part[step * replicas : (step + 1) * replicas])
             for step in range(len(alone))]  # fmt: skip
    assert steps == alone
    assert len(alone) == 2 * (len(made.windows) // 7)


@pytest.mark.slow
@pytest.mark.parametrize("made", [SERIES], ids=["series"], indirect=True)
@pytest.mark.parametrize("workers", sample([2, 3], [3]))
def test_workers_evaluate_each_window_once(made, workers):
    parts = [made.read(worker=i, workers=workers, remainder="pad") for i in range(workers)]
    assert Counter(flat(flat(parts))) == Counter(made.windows)


@pytest.mark.slow
def test_reading_can_begin_at_any_step(made, monkeypatch):
    monkeypatch.setattr(batching, "LEAST_BYTES", 0)
    monkeypatch.setattr(batching, "MOST_BYTES", 2000)
    whole = made.read(shuffle=8, epochs=2)
    steps = len(made.windows) // 4
    assert len(whole) == 2 * steps
    begins = (1, steps - 1, steps, 2 * steps - 2)
    for begin in begins if made.manifest.windows == SERIES else begins[1::2]:
        assert made.read(shuffle=8, start=divmod(begin, steps), epochs=2 - begin // steps) == whole[begin:]


@pytest.mark.slow
@pytest.mark.parametrize("made", [SERIES], ids=["series"], indirect=True)
@pytest.mark.parametrize("names", sample([["label"], ["who", "pair", "tokens"], None], [["who", "pair", "tokens"]]))
def test_the_fields_that_are_asked_for_do_not_change_the_order(made, names):
    whole = flat(made.read(shuffle=20, remainder="pad"))
    (spec, _) = made.load(fields=names, remainder="pad").element_spec
    wanted = names or [field.name for field in FIELDS if field.role != "key"]
    assert set(spec) == set(wanted)
    columns = [NAMES.index(name) for name in wanted]
    found = []
    for batch, weights in made.load(fields=names, shuffle=20, remainder="pad"):
        found += [row for row, weight in zip(rows_of(batch, wanted), weights, strict=True) if weight]
    assert found == [tuple(window[i] for i in columns) for window in whole]


def test_the_shape_of_a_batch_is_known_before_it_is_read(made):
    spec = made.load().element_spec
    series = made.manifest.windows.length == 4
    time = [4] if series else []
    for field in FIELDS:
        shape = [4, *(time if field.per == "row" else []), *field.shape]
        assert spec[field.name].shape.as_list() == shape, field.name
        assert isinstance(spec[field.name], tf.RaggedTensorSpec) == field.is_ragged
        assert spec[field.name].dtype == (tf.string if field.dtype == "bytes" else tf.as_dtype(field.dtype))


REPLICAS = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
from beamfeed.contract.imports import heavy_imports
with heavy_imports():
    import tensorflow as tf
    from records import FIELDS, rows_of
    from beamfeed.trainer.feed.dataset import load_dataset
    from beamfeed.trainer.feed.sharding import Distribution

names = [field.name for field in FIELDS]
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
for output in sys.argv[1:]:
    feed = load_dataset(
        output, "train", batch_size=6, shuffle=20, fields=names, distribution=Distribution(replicas=2)
    )
    batches = iter(strategy.distribute_datasets_from_function(lambda _: feed))

    @tf.function
    def step():
        return strategy.run(lambda batch: batch, args=(next(batches),))

    print([rows_of(batch, names) for batch in strategy.experimental_local_results(step())])
"""


@pytest.mark.slow
def test_the_replicas_of_a_strategy_share_a_batch(tmp_path):
    series_and_single = [Made(tmp_path / str(windows.length), windows) for windows in (SERIES, SINGLE)]
    tests = pathlib.Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tests.parent), str(tests)])}
    found = subprocess.run(
        [sys.executable, "-c", REPLICAS, *(made.output for made in series_and_single)],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for made, told in zip(series_and_single, found.stdout.splitlines(), strict=True):
        first, second = ast.literal_eval(told)
        assert len(first) == len(second) == 3
        assert first + second == made.read(batch_size=6, shuffle=20)[0]


@pytest.mark.parametrize(
    ("made", "cache", "remainder"), [(SERIES, "none", "drop"), (SINGLE, "memory", "pad")], indirect=["made"]
)
def test_damaged_records_are_passed_over_with_all_their_fields(made, cache, remainder):
    damaged = made.manifest.shard_paths(made.output, "train")[0]
    flip(damaged, os.path.getsize(damaged) // 3)  # in its first block
    found = flat(made.read(skip_corrupt=True, remainder=remainder, cache=cache, shuffle=20, epochs=2))
    assert set(found) < set(made.windows)
    assert len(set(found)) > len(made.windows) / 3
    if remainder == "drop":
        assert len(found) == 2 * (len(made.windows) // 4 * 4)


@pytest.mark.parametrize("made", [SERIES], ids=["series"], indirect=True)
def test_what_stands_for_a_damaged_window_is_the_same_wherever_reading_begins(made):
    for damaged in made.manifest.shard_paths(made.output, "train")[::2]:
        flip(damaged, os.path.getsize(damaged) // 3)
    whole = made.read(skip_corrupt=True, shuffle=20)
    for begin in (1, 3, len(whole) - 1):
        assert made.read(skip_corrupt=True, shuffle=20, start=(0, begin)) == whole[begin:]


def shorter(values):
    return values[:-1]


def longer(values):
    return [*values, values[-1]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "change"),
    sample(
        [(name, change) for name in NAMES if name != "values" for change in (shorter, longer)],
        [("grid", shorter), ("tokens", longer), ("label", shorter), ("title", longer), ("mask", longer)],
    ),
)
def test_a_field_with_too_few_or_too_many_values_stops_with_its_name(tmp_path, name, change):
    record = make_record(FIELDS, 9, SERIES, np.random.default_rng(0))
    bad = {**record, name: change(record[name])}
    check_mismatch(tmp_path, [record, bad], name)


def test_records_that_are_read_into_memory_are_checked_too(tmp_path):
    record = make_record(FIELDS, 9, SERIES, np.random.default_rng(0))
    check_mismatch(tmp_path, [{**record, "label": record["label"][:-1]}], "label", cache="memory")


@pytest.mark.parametrize("name", ["values", "grid", "boxes", "pair", "tokens", "found", "pixels"])
def test_a_value_with_a_part_missing_stops_with_the_name_of_its_field(tmp_path, name):
    record = make_record(FIELDS, 9, SERIES, np.random.default_rng(0))
    field = FIELDS[NAMES.index(name)]
    if field.is_ragged:  # the lengths are of values that are longer
        at = next(i for i, value in enumerate(record[name]) if len(value))
        value = Longer(record[name][at])
    else:
        at, value = 0, np.ravel(record[name][0])[:-1]
    bad = {**record, name: [*record[name][:at], value, *record[name][at + 1 :]]}
    check_mismatch(tmp_path, [record, bad], name)


class Longer:
    """Entries that say they are one more than they are."""

    def __init__(self, value):
        self.value = value

    def __len__(self):
        return len(self.value) + 1

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.value, dtype)


def check_mismatch(folder, records, name, cache="none"):
    output = str(folder)
    fields = [field for field in FIELDS if field.role != "target" and field.role != "weight"]
    extra = [field.model_copy(update={"role": "input"}) for field in FIELDS if field not in fields]
    manifest = write_dataset(output, [*fields, *extra], {"train": [records]}, SERIES)
    line = f"differ from the manifest: field {name}; preprocess again$"
    options = FeedOptions(tuning=Tuning(cache=cache))
    with pytest.raises(UserError, match=line) as caught, explained(manifest, output):
        list(load_dataset(output, "train", batch_size=2, fields=["values", name], options=options))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(output)


def test_a_field_of_another_dtype_stops_with_one_line(made):
    fields = [field.model_copy(update={"dtype": "float32"}) if field.name == "count" else field for field in FIELDS]
    manifest = made.manifest.model_copy(update={"fields": fields})
    told = "the field count is of another type than the manifest says"
    with (
        pytest.raises(UserError, match=told) as caught,
        explained(manifest, made.output),
    ):
        list(made.load(manifest=manifest, fields=["values", "count"]))
    assert "\n" not in str(caught.value)


shapes = st.one_of(
    st.just(()), st.tuples(st.integers(1, 3)), st.tuples(st.none()), st.tuples(st.none(), st.integers(1, 2))
)
some_fields = st.lists(
    st.tuples(
        st.sampled_from(["float32", "int64", "bytes", "int8", "bool", "uint32", "float64"]),
        shapes,
        st.sampled_from(["row", "window", "record"]),
    ).filter(lambda drawn: drawn[0] in LISTED or None not in drawn[1]),
    max_size=4,
).map(
    lambda drawn: [
        Field(name=f"field_{i}", dtype=dtype, shape=shape, role="input", per=per)
        for i, (dtype, shape, per) in enumerate([*drawn, ("int64", (), "row")])
    ]
)


@pytest.mark.slow
@given(
    some_fields,
    st.builds(Windows, length=st.integers(1, 5), stride=st.integers(1, 4)),
    st.lists(st.lists(st.integers(0, 12), max_size=4), min_size=1, max_size=3),
    st.integers(1, 5),
    st.sampled_from(["none", "memory"]),
)
@settings(max_examples=6, deadline=None)
def test_any_fields(fields, windows, rows, batch, cache):
    if not any(count >= windows.length for shard in rows for count in shard):
        return
    with tempfile.TemporaryDirectory() as folder:
        made = Made(folder, windows, fields=fields, rows=rows)
        found = flat(made.read(batch_size=batch, shuffle=6, remainder="pad", cache=cache))
    assert Counter(found) == Counter(made.windows)


def test_the_loop_that_all_is_compared_with_finds_what_was_written(tmp_path):
    made = Made(tmp_path, SERIES)
    record = make_records(FIELDS, ROWS, SERIES)[0][0]
    first = made.windows[1]
    for name, value in zip(NAMES, first, strict=True):
        per = FIELDS[NAMES.index(name)].per
        expected = record[name][2:6] if per == "row" else record[name][1 if per == "window" else 0]
        assert value == as_tuples([np.asarray(one, object).tolist() for one in expected] if per == "row"
                                  else np.asarray(expected, object).tolist())  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("made", sample([SERIES, SINGLE], [SERIES]), ids=["series", "single"], indirect=True)
def test_tuning_changes_how_and_not_what(made):
    expected = made.read(shuffle=20)
    for tuning in (Tuning(open_blocks=1, rounds=1), Tuning(parallel=False, prefetch=False)):
        options = FeedOptions(tuning=replace(tuning, cache="memory"))
        found = load_dataset(made.output, "train", batch_size=4, fields=NAMES, shuffle=20, options=options)
        assert [rows_of(batch, NAMES) for batch in found] == expected
