"""The figures of sections, each against a plain loop or another library."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.decomposition import PCA
from sklearn.metrics import confusion_matrix, log_loss, r2_score

from beamfeed.contract.config.task import Classify, Forecast, Regress
from beamfeed.contract.dataset.fields import Field
from beamfeed.transforms.reporting.answers import Answer, answers_of, answers_section, confusion
from beamfeed.transforms.reporting.errors import apart
from beamfeed.transforms.reporting.features import Feature, values_of
from beamfeed.transforms.reporting.latent import in_two
from beamfeed.transforms.reporting.scales import known_line, line_of
from beamfeed.transforms.reporting.tables import Predictions
from beamfeed.transforms.reporting.timelines import Line, lines_of
from beamfeed.transforms.sources.record_block import Ragged, RecordBlock


def test_two_dimensions_are_those_of_pca():
    vectors = np.random.default_rng(0).normal(size=(200, 5)) * [5, 3, 1, 1, 1]
    points, explained = in_two(vectors)
    other = PCA(2).fit(vectors)
    np.testing.assert_allclose(np.abs(points), np.abs(other.transform(vectors)), atol=1e-9)
    np.testing.assert_allclose(explained, other.explained_variance_ratio_)
    assert in_two(np.arange(6.0)[:, None])[0].shape == (6, 2)


def test_no_peak_is_lost():
    rng = np.random.default_rng(0)
    x, values = np.arange(100_000.0), rng.normal(size=100_000)
    values[[777, 54_321]] = 50, -40
    line = Line(points=300)
    for part in np.array_split(np.arange(100_000), [1, 250, 700, 50_000, 54_400]):  # as batches come
        line.add(x[part], values[part])
    ends = set()
    for first in range(0, 100_000, 512):  # the least power of two that makes at most 300 stretches
        part = values[first : first + 512]
        ends |= {first + int(part.argmin()), first + int(part.argmax())}
    assert line.x.tolist() == sorted(ends)
    np.testing.assert_array_equal(line.values, values[line.x.astype(int)])
    assert (line.rows, line.step, line.values.max(), line.values.min()) == (100_000, 1, 50, -40)
    short = Line(points=300)
    short.add(x[:600], values[:600])
    np.testing.assert_array_equal(short.values, values[:600])


def test_a_timeline_of_a_very_long_asset(tmp_path):
    """Its peak is there wherever it is, and what is kept does not grow with its rows."""
    rows = 4_200_000
    scores = np.zeros(rows, "f4")
    scores[-9] = 7
    asset = pa.DictionaryArray.from_arrays(np.full(rows, 1, "i1"), ["a", "long"]).cast(pa.string())
    path = str(tmp_path / "part-00000.parquet")
    pq.write_table(pa.table({"asset": asset, "time": np.arange(rows), "score": scores}), path)
    lines = lines_of([path], ["long", "none"])
    assert list(lines) == ["long"]
    assert lines["long"].rows == rows
    assert len(lines["long"].x) <= 1200
    assert lines["long"].x[lines["long"].values.argmax()] == rows - 9


@pytest.mark.parametrize("classes", [2, 5, 30])
def test_confusion(classes):
    rng = np.random.default_rng(classes)
    truth = rng.choice(classes, 4000, p=rng.dirichlet(np.ones(classes)))
    guess = np.where(rng.random(4000) < 0.7, truth, rng.integers(0, classes, 4000))
    counts, shown = confusion(truth, guess, classes, most=10)
    assert counts.sum() == 4000
    whole = confusion_matrix(truth, guess, labels=range(classes))
    kept = [at for at in shown if at >= 0]
    np.testing.assert_array_equal(counts[: len(kept), : len(kept)], whole[np.ix_(kept, kept)])
    if classes > 10:
        others = [at for at in range(classes) if at not in kept]
        assert counts[-1, -1] == whole[np.ix_(others, others)].sum()
        assert whole.sum(axis=1)[kept].min() >= whole.sum(axis=1)[others].max()


def test_errors_of_answers():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(3), 50).astype("f4")
    names = ["a", "b", "c"]
    truth = rng.integers(0, 3, 50)
    table = pa.table({f"probability_{name}": shares[:, at] for at, name in enumerate(names)}
                     | {"label": pa.array([names[at] for at in truth])})  # fmt: skip
    answer = Answer("", Classify(name="classify"), [f"probability_{name}" for name in names], "label", names)
    assert answer.error(table).mean() == pytest.approx(log_loss(truth, shares, labels=[0, 1, 2]), rel=1e-5)
    unknown = table.set_column(3, "label", pa.array(["?"] * 50))
    assert np.isnan(answer.error(unknown)).all()
    as_lists = pa.table({"probabilities": pa.FixedSizeListArray.from_arrays(pa.array(shares.ravel()), 3),
                         "label": table["label"]})  # fmt: skip
    other = Answer("", Classify(name="classify"), ["probabilities"], "label", names)
    np.testing.assert_allclose(other.error(as_lists), answer.error(table))

    numbers = pa.table({"prediction": [1.0, 2.0], "label": [1.5, 0.0]})
    assert Answer("", Regress(name="regress"), ["prediction"], "label", []).error(numbers).tolist() == [0.5, 2.0]


def test_forecasts_are_set_beside_what_came():
    """Targets are row after row, with all columns of each; forecasts come column by column."""
    truth = np.arange(2 * 4 * 3.0).reshape(2, 4, 3)  # windows, rows ahead, columns
    forecast = truth + np.array([0, 1, 2])
    columns = {
        f"forecast_{name}": pa.FixedSizeListArray.from_arrays(pa.array(forecast[:, :, at].ravel()), 4)
        for at, name in enumerate("xyz")
    }
    table = pa.table({**columns, "label": pa.FixedSizeListArray.from_arrays(pa.array(truth.ravel()), 12)})
    answer = Answer("", Forecast(name="forecast"), list(columns), "label", [])
    true, said = answer.numbers(table)
    np.testing.assert_array_equal(true.reshape(2, 4, 3), truth)
    np.testing.assert_array_equal(said.reshape(2, 4, 3), forecast)
    np.testing.assert_allclose(answer.error(table), 1.0)


def test_rows_with_the_largest_errors(tmp_path):
    rng, errors = np.random.default_rng(0), {}
    for shard in range(3):
        values = rng.random(2000).astype("f4")
        values[shard] = np.nan
        errors[shard] = values
        (tmp_path / "test").mkdir(exist_ok=True)
        table = pa.table({"score": values, "error_x": values / 2})
        pq.write_table(table, tmp_path / f"test/part-{shard:05d}-of-00003.parquet", row_group_size=300)
    told = {"items": {"test": 6000}, "files": [f"test/part-{shard:05d}-of-00003.parquet" for shard in range(3)]}
    predictions = Predictions(str(tmp_path), told)
    worst, best, seen = predictions.extremes(
        "test", ["score"], lambda batch: batch["score"].to_numpy().astype(float), 10, ["error_x"]
    )
    flat = sorted(((float(value), shard, number) for shard, values in errors.items()
                   for number, value in enumerate(values) if not np.isnan(value)), reverse=True)  # fmt: skip
    assert [(error, *place) for error, place, _ in worst] == flat[:10]
    assert [(error, *place) for error, place, _ in best] == flat[::-1][:10]
    np.testing.assert_allclose([kept[0] * 2 for *_, kept in worst], [error for error, *_ in worst])
    assert len(seen) == 6000 - 3
    assert 300 < predictions.some("test", ["score"], 500).num_rows < 700
    assert predictions.some("test", ["score"], 10_000).num_rows == 6000


def test_windows_that_share_rows_are_shown_once():
    rows = [(9.0 - at, (shard, number), np.empty(0))
            for at, (shard, number) in enumerate([(0, 5), (0, 6), (1, 6), (0, 9), (0, 15)])]  # fmt: skip
    assert [place for _, place, _ in apart(rows, 4)] == [(0, 5), (1, 6), (0, 9), (0, 15)]


def test_scales():
    values = np.array([3.0, 5.0, np.nan, 9.0, 4.0])
    stats = {"mean": 5.0, "std": 2.0, "min": 3.0, "max": 9.0}
    assert known_line((values - 5) / 2, values, stats) == (5.0, 2.0)
    assert known_line((values - 3) / 6, values, stats) == (3.0, 6.0)
    assert known_line(np.log1p(values), values, stats) is None
    assert line_of((values - 1) / 4, values) == pytest.approx((1.0, 4.0))
    assert line_of(np.log1p(values), values) is None
    assert line_of(np.zeros(5), values) is None


def test_features_of_any_shape():
    values = {
        "rows": np.arange(12, dtype="f4").reshape(3, 4),
        "words": np.array([[3, 4, 0], [1, 0, 0], [0, 0, 0]]),
        "list": Ragged(np.array([1.0, 3.0, 5.0], "f4"), np.array([2, 0, 1])),
    }
    block = RecordBlock("", np.array([0]), np.array([3]), values)
    rows = Field(name="rows", dtype="float32", shape=(4,), role="input", columns=list("abcd"))
    assert values_of(block, Feature("c", rows, 2, False)).tolist() == [2, 6, 10]
    words = Field(name="words", dtype="int64", shape=(3,), role="input", sizes=[9])
    assert values_of(block, Feature("words, length", words, None, False)).tolist() == [2, 1, 0]
    ragged = Field(name="list", dtype="float32", shape=(None,), role="input")
    assert values_of(block, Feature("list, mean of each", ragged, None, False)).tolist() == [2, 0, 5]


def test_the_section_of_a_model_that_predicts_numbers(tmp_path):
    rng = np.random.default_rng(0)
    truth = rng.normal(size=400)
    said = truth + 0.3 * rng.normal(size=400)
    (tmp_path / "eval").mkdir()
    pq.write_table(pa.table({"prediction": said, "label": truth}), tmp_path / "eval/part-00000-of-00001.parquet")
    predictions = Predictions(str(tmp_path), {"items": {"eval": 400}, "files": ["eval/part-00000-of-00001.parquet"]})
    (answer,) = answers_of(Regress(name="regress"), None, predictions.schema())  # asked of classes alone
    section = answers_section(answer, predictions)
    written = section.html()
    assert section.title == "Answers on eval"
    assert f"<dd>{np.abs(said - truth).mean():.4g}</dd>" in written
    assert f"<dd>{r2_score(truth, said):.4g}</dd>" in written
    assert written.count("<img") == 3


def test_errors_of_columns_are_no_label_that_is_called_so(tmp_path):
    names = ["asset", "error_code", "nearest", "score", "error_s1", "error_s2"]
    pq.write_table(pa.table({name: [1.0] for name in names}), tmp_path / "a.parquet")
    assert Predictions(str(tmp_path), {"files": ["a.parquet"]}).errors() == ["error_s1", "error_s2"]
