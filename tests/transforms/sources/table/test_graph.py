"""The steps of features, each against plain Python; and the graph beside what workers do in arrays, bit by bit."""

import datetime
import math
from pathlib import Path
from unicodedata import ucd_3_2_0

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from hypothesis import given as given_by_hypothesis
from hypothesis import strategies as st

from beamfeed.contract.config.features import DATE_PARTS, Numeric, Text
from beamfeed.contract.config.job import Job
from beamfeed.transforms.driver import Driver
from beamfeed.transforms.sources import make_source
from beamfeed.transforms.sources.columns.time_units import NO_TIME
from beamfeed.transforms.sources.record_block import Ragged, Values
from beamfeed.transforms.sources.table.analyze import load_transformer
from beamfeed.transforms.sources.table.arrays import Arrays, log1p
from beamfeed.transforms.sources.table.encode import bucket_of, date_parts, hashed, on_circle, scaled, spread
from beamfeed.transforms.sources.table.graph import Tensors
from beamfeed.transforms.sources.table.graph import words_of as tensor_words
from beamfeed.transforms.sources.table.learned import LearnedTable
from beamfeed.transforms.sources.table.schema import NamedFeature
from beamfeed.transforms.sources.table.source import Table
from beamfeed.transforms.sources.table.staged import read_runs
from beamfeed.transforms.sources.table.statistics import TableStatistics
from beamfeed.transforms.sources.table.validate import TableVerdict
from beamfeed.transforms.sources.table.words import words_of
from beamfeed.transforms.statistics.graph import Marks
from beamfeed.transforms.statistics.marks import fill

UTC = datetime.UTC
ARRAYS = Arrays(LearnedTable({}, {}))
TENSORS = Tensors(Marks(""))


@pytest.fixture(params=[ARRAYS, TENSORS], ids=["arrays", "tensors"])
def of(request):
    return request.param


def given(of, values, dtype=None):
    """An array of one or the other sort."""
    if of is TENSORS:
        return tf.constant(values, dtype)
    return pa.array(values, pa.string()) if isinstance(values[0], str) else np.array(values, dtype)


@given_by_hypothesis(
    st.lists(st.datetimes(datetime.datetime(1600, 1, 1), datetime.datetime(2999, 12, 31)), min_size=1, max_size=9)
)
def test_parts_of_dates_are_those_of_datetime(moments):
    seconds = [math.floor(moment.replace(tzinfo=UTC).timestamp()) for moment in moments]
    for of in (ARRAYS, TENSORS):
        parts = date_parts(given(of, [*seconds, NO_TIME], np.int64), list(DATE_PARTS), of)
        for place, moment in enumerate(moments):
            expected = moment.minute, moment.hour, moment.weekday(), moment.day - 1, moment.month - 1
            assert tuple(int(parts[name][place]) for name in DATE_PARTS) == expected
        assert all(parts[name][-1] == -1 for name in DATE_PARTS)


def test_neighbours_on_a_circle(of):
    sine, cosine = (np.array(axis) for axis in on_circle(given(of, [-1, 0, 3, 6, 9, 11], np.int64), 12, of))
    np.testing.assert_allclose(sine, [0, 0, 1, 0, -1, -0.5], atol=1e-6)
    np.testing.assert_allclose(cosine, [0, 1, 0, -1, 0, math.sqrt(3) / 2], atol=1e-6)


def test_numbers(of):
    sections = [
        Numeric(type="numeric", scale="none", missing=7.0),
        Numeric(type="numeric", scale="log"),
        Numeric(type="numeric", clip=2.0),
    ]
    features = [NamedFeature(str(i), section, (str(i),)) for i, section in enumerate(sections)]
    rows = np.array([[0, 1, 10], [1, 2, 5], [7, 3, 10]], np.float32)
    values = np.array([[3, math.e - 1, 15], [np.nan, -(math.e - 1), -99], [np.inf, np.nan, np.nan]], np.float32)
    numbers, missing = scaled(given(of, values), given(of, rows), features, of)
    np.testing.assert_allclose(numbers, [[3, 0, 1], [7, -1, -2], [7, 1, 0]], atol=1e-6)
    assert np.array(missing).tolist() == [[False] * 3, [True, False, False], [True, True, True]]


def test_buckets_and_what_is_missing(of):
    values, edges = [0.5, 1, 1.5, 2, 9, np.nan, -np.inf], [1.0, 2.0, np.inf]
    buckets = bucket_of(given(of, values, np.float32), given(of, edges, np.float32), of)
    assert np.array(buckets).tolist() == [1, 2, 2, 3, 3, 0, 0]


def test_unseen_values_are_spread_and_missing_ones_are_not(of):
    texts, place = given(of, ["", "seen", "x", "y", "z", "other"]), given(of, [-1, 1, -1, -1, -1, 2], np.int64)
    assert np.array(spread(place, texts, 1, of)).tolist() == [0, 2, 1, 1, 1, 3]
    numbers = np.array(spread(place, texts, 4, of))
    assert (numbers[0], numbers[1], numbers[5]) == (0, 5, 6)
    assert set(numbers[2:5]) <= {1, 2, 3, 4}
    hashes = np.array(hashed(texts, 5, of))
    assert hashes[0] == 0
    assert (hashes[1:] >= 1).all()
    assert (hashes[1:] <= 5).all()


@pytest.mark.parametrize(
    ("section", "text", "expected"),
    [
        ({}, "Don't WAIT, call 0800-12!", ["don't", "wait", ",", "call", "0800", "-", "12", "!"]),
        ({}, "Größe\u00a0\tЖ 日本 a\u0301", ["größe", "ж", "日本", "a\u0301"]),
        ({"lower": False}, "Ab cD", ["Ab", "cD"]),
        ({"split": "spaces"}, " a,b  c! ", ["a,b", "c!"]),
        ({"split": "characters"}, "Ab ü", ["a", "b", " ", "ü"]),
        ({}, "", []),
        ({}, " \n ", []),
    ],
)
def test_words(section, text, expected):
    section = Text(type="text", **section)
    assert [word.decode() for word in tensor_words([text], section).to_list()[0]] == expected
    assert words_of(pa.array([text]), section).values.to_pylist() == expected


SECTIONS = [
    Text(type="text", split=split, lower=lower)
    for split in ("words", "spaces", "characters")
    for lower in (True, False)
]


def both(texts: list[str], section: Text) -> tuple[Ragged, tf.RaggedTensor]:
    return words_of(pa.array(texts, pa.string()), section), tensor_words(
        tf.constant(np.array(texts, object), tf.string), section
    )


@pytest.mark.slow
def test_words_of_every_character_there_is():
    """Of each alone, among letters, and at the end of a word, where some are lowered in another way.

    Up to Unicode 3.2: letters that came since 2020 TensorFlow does not know yet. And U+1734 it takes for a mark, which
    is a letter since then.
    """
    characters = [
        chr(code) for code in range(0x110000) if ucd_3_2_0.category(chr(code)) not in ("Cs", "Cn") and code != 0x1734
    ]
    for section in SECTIONS:
        for texts in (characters, [f"aΣ{one}B {one}Σ" for one in characters]):
            words, of_graph = both(texts, section)
            np.testing.assert_array_equal(words.lengths, of_graph.row_lengths())
            assert words.values.cast(pa.binary()).equals(pa.array(of_graph.flat_values.numpy(), pa.binary()))


TEXTS = st.text(st.sampled_from("abΣσςİIßẞǅé日\u0301\u200d😀 \t\n\x1c\x85\u2003'_-.,!09\0"), max_size=30)  # noqa: RUF001


@given_by_hypothesis(st.lists(TEXTS, max_size=40))
def test_words_of_texts(texts):
    for section in SECTIONS:
        words, of_graph = both(texts, section)
        np.testing.assert_array_equal(words.lengths, of_graph.row_lengths())
        assert words.values.cast(pa.binary()).to_pylist() == of_graph.flat_values.numpy().tolist()


def test_the_logarithm_is_that_of_the_kernels():
    values = np.random.default_rng(1).integers(0, 0x7F800000, 1 << 20, np.int32).view("f4")
    np.testing.assert_array_equal(log1p(values), tf.math.log1p(values))
    np.testing.assert_allclose(log1p(values), np.log1p(values.astype("f8")), rtol=1e-6, atol=1e-37)
    assert log1p(np.array([0, np.inf, np.nan], "f4")).tolist()[:2] == [0, math.inf]


FEATURES = {
    "num": {"type": "numeric", "indicator": True, "clip": 3},
    "large": {"type": "numeric", "scale": "minmax", "missing": -1},
    "log": {"type": "numeric", "scale": "log"},
    "robust": {"type": "numeric", "scale": "robust", "column": "num"},
    "raw": {"type": "numeric", "scale": "none", "column": "large"},
    "kind": "categorical",
    "rare": {"type": "categorical", "column": "kind", "max_size": 3, "unseen": 5},
    "hashed": {"type": "categorical", "column": "name", "hash": 50},
    "bucket": {"type": "bucket", "column": "num", "buckets": 9},
    "halves": {"type": "bucket", "column": "large", "buckets": 2},
    "edges": {"type": "bucket", "column": "num", "edges": [-1, 0.5]},
    "when": {"type": "date", "parts": ["minute", "hour", "weekday", "day", "month"]},
    "clock": {"type": "date", "column": "when", "parts": ["hour", "month"], "cyclic": True},
    "both": {"type": "cross", "of": ["kind", "name"], "hash": 1000},
    "text": {"type": "text", "length": 4},
    "letters": {"type": "text", "column": "text", "split": "characters", "length": "ragged", "lower": False},
    "name": {"type": "pass"},
    "key": {"type": "pass", "as": "number", "column": "num", "role": "key"},
}


def odd_table(rows: int = 3000) -> pa.Table:
    """With infinities, missing, empty, huge and tiny values among others."""
    rng = np.random.default_rng(3)
    num = rng.normal(5, 3, rows).astype("f4")
    num[rng.random(rows) < 0.2] = np.nan
    num[:6] = [np.inf, -np.inf, 3.4e38, -3.4e38, 1e-40, -0.0]
    large = (10 ** rng.uniform(-20, 20, rows)).astype("f4")
    log = (rng.choice([-1, 1], rows) * 10 ** rng.uniform(-8, 12, rows)).astype("f4")
    log[:5] = [0, np.inf, np.nan, 3.4e38, -1e-30]
    seconds = rng.integers(-4_000_000_000, 4_000_000_000, rows)
    times = pa.array(seconds, pa.timestamp("s"), mask=rng.random(rows) < 0.1)
    words = np.array(["", "Win", "später!", "a-b", " ", "ΣΑΣ", "日本", "x" * 300])
    return pa.table(
        {
            "num": num,
            "large": large,
            "log": log,
            "kind": pa.array(
                rng.choice(["red", "green", "", "Ünïcode", "blau", "\n"], rows), mask=rng.random(rows) < 0.1
            ),
            "name": [f"{'n' * int(size)}{number}" for number, size in enumerate(rng.integers(0, 90, rows))],
            "when": times,
            "text": [" ".join(rng.choice(words, rng.integers(0, 7))) for _ in range(rows)],
            "label": rng.integers(0, 2, rows),
        }
    )


def learned(folder: Path, features: dict) -> tuple[Table, TableVerdict, TableStatistics]:
    """A job on the odd table in a folder: its source, and what was learned of all rows."""
    job = Job.model_validate(
        {
            "name": "odd",
            "source": {"kind": "table", "files": str(folder / "rows.parquet")},
            "features": features,
            "label": {"column": "label", "classes": [0, 1]},
            "split": {"by": "row", "train": 0.6, "eval": 0.2, "test": 0.2},
            "output": {"path": str(folder / "out")},
        }
    )
    source, (file,) = make_source(job, job.source.list_files())
    asset = source.plan("rows", list(source.scan(file, str(folder))))
    verdict = source.judge(asset, map(source.validate, source.units(asset)))
    assert not verdict.rejects
    (statistics,), made = source.learn(Driver(), [verdict])
    assert made is None
    return source, verdict, statistics


@pytest.mark.filterwarnings("ignore")
def test_workers_encode_to_the_bits_of_the_graph(tmp_path):
    pq.write_table(odd_table(), tmp_path / "rows.parquet")
    source, verdict, statistics = learned(tmp_path, FEATURES)
    source.graph(str(tmp_path / "traced"))
    fill(str(tmp_path / "traced"), str(tmp_path / "filled"), source.learned(statistics, ""))
    graph = load_transformer(str(tmp_path / "filled"))
    encoder = source._encoder(statistics, "")
    count = 0
    for staged in verdict.staged:
        for rows in read_runs(staged.path, staged.runs):
            whole = rows.slice(0, rows.num_rows // 64 * 64)  # of a batch's end the last bit of a logarithm may differ
            for part in (whole, whole.slice(0, 0)):
                by_graph, by_worker = graph(part), encoder(part)
                assert set(by_worker) == set(by_graph)
                for name, values in by_graph.items():
                    assert same(by_worker[name], values), name
            count += whole.num_rows
    assert count > 2000


def test_two_jobs_on_the_same_rows_are_encoded_each_in_its_way(tmp_path):
    """In one process, as from a notebook: what was counted is equal, what becomes of it is not."""
    pq.write_table(odd_table(), tmp_path / "rows.parquet")
    largest = []
    for clip in (3, 1):
        source, verdict, statistics = learned(tmp_path, {"num": {"type": "numeric", "clip": clip}})
        (staged, *_) = verdict.staged
        blocks = [source._encoder(statistics, "")(rows) for rows in read_runs(staged.path, staged.runs)]
        largest.append(max(abs(block["numbers"]).max() for block in blocks))
    assert largest == [3, 1]


def same(by_worker: Values, by_graph: Values) -> bool:
    """Whether values are equal to the bit, but for what TensorFlow takes for 0: numbers under 2**-126."""
    if isinstance(by_graph, Ragged):
        return same(by_worker.values, by_graph.values) and same(by_worker.lengths, by_graph.lengths)
    if not isinstance(by_graph, np.ndarray):
        return by_worker.equals(by_graph)
    if by_graph.dtype == "f4":
        by_worker, by_graph = _without_tiny(by_worker), _without_tiny(by_graph)
    return by_worker.dtype == by_graph.dtype and np.array_equal(by_worker, by_graph, equal_nan=by_worker.dtype == "f4")


def _without_tiny(values: np.ndarray) -> np.ndarray:
    return np.where(abs(values) < np.finfo("f4").tiny, np.float32(0), values)
