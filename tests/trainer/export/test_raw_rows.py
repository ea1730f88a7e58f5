"""Rows as the files have them go through the SavedModel, which predicts what it does of prepared ones."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
import yaml

from beamfeed.contract import storage
from beamfeed.contract.config.features import key_columns
from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.load import load_as
from beamfeed.contract.dataset.manifest import read_manifest
from beamfeed.contract.dataset.raw_rows import RawRows, read_raw_rows, write_raw_rows
from beamfeed.contract.dataset.raw_values import read_raw_values
from beamfeed.contract.dataset.result import TrainResult
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.pipelines.preprocess import main
from beamfeed.trainer import models
from beamfeed.trainer.export.fresh import check_answers
from beamfeed.trainer.export.run import export_run
from beamfeed.trainer.export.sample import sample_calls
from beamfeed.trainer.export.saved_model import save_serving
from beamfeed.trainer.loop.train import TrainedModel
from beamfeed.trainer.tasks.objective import Objective
from beamfeed.transforms.sources.readers import BAD, iter_batches
from beamfeed.transforms.sources.table.analyze import load_transformer
from beamfeed.transforms.sources.table.resolve import resolve_schema
from beamfeed.transforms.sources.table.rows import to_rows

pytestmark = pytest.mark.filterwarnings("ignore")

RESULT = TrainResult(
    fingerprint="f", epochs=1, stale=0, stopped_early=False, first_loss=1.0, last_loss=0.5, best=0.5, best_loss=0.5,
    test_loss=None, seconds=1.0, workers=1,
)  # fmt: skip


class Served:
    """A job that was preprocessed, and the SavedModel of a model that was not trained: its weights are large."""

    def __init__(self, job_file: Path, folder: Path, *overrides: str):
        argv = ["--job", str(job_file)]
        workdir = f"train.workdir={folder / 'model'}"
        for override in (f"output.path={folder / 'data'}", workdir, *overrides):
            argv += ["--set", override]
        assert main(argv) == 0
        self.job = load_as(TrainingJob, str(job_file), argv[3::2])
        self.manifest = read_manifest(self.job.output.path)
        self.layout = self.manifest.data_layout(self.job.output.path)
        objective = Objective.of(self.job.train, self.manifest)
        model = models.build(self.job.train.model.bare, objective.signature, 0)
        model.set_weights([1.5 * weight for weight in model.get_weights()])
        module = save_serving(
            model, objective, self.manifest, self.layout.transform_fn, self.job.prepare.missing, str(folder / "served"),
            (), key_columns(self.job.features), read_raw_values(self.layout.raw_values),
        )  # fmt: skip
        self.asked = (self.job, self.manifest, objective, model, module)
        self.model = tf.saved_model.load(str(folder / "served"))
        self.inputs = list(objective.signature.inputs)

    @property
    def arguments(self) -> dict[str, str]:
        """Of a table: the names of the signatures' arguments, by column."""
        told = {name: value.numpy() for name, value in self.model.signatures["columns"]().items()}
        pairs = zip(told["columns"], told["arguments"], strict=True)
        return {column.decode(): argument.decode() for column, argument in pairs}

    def prepared(self, path: Path) -> tuple[np.ndarray, set[int]]:
        """Predictions of the rows of a file as preprocessing makes them, and the rows that it sets aside."""
        schema = resolve_schema(self.job, storage.match(str(path), (path.suffix,)))
        transformer = load_transformer(self.layout.root)
        found, wrong = [], set()
        for _, first, batch in iter_batches(str(path), schema, [*schema.names, BAD]):
            rows = to_rows(str(path), first, batch, schema, {})
            wrong |= {first + row for row in rows.wrong}
            fields = transformer(rows.columns)
            given = {name: tf.constant(fields[name]) for name in self.inputs}
            found.append(self.model.signatures["preprocessed"](**given)["probabilities"].numpy())
        return np.concatenate(found), wrong

    def check_rows_of_file(self) -> list[str]:
        """Sends the rows that the dataset carries through the SavedModel; returns where they are from."""
        call = sample_calls(*self.asked, read_raw_rows(self.layout.raw_rows))[-1]
        assert call.signature in ("rows_of_text", "serving_default")
        answer = self.model.signatures[call.signature](**call.inputs)
        check_answers("served", [call], [answer], {})
        assert len(np.unique(answer["probabilities"][:, 0].numpy().round(4))) > 3  # predictions hang on the row
        return call.places

    def predict(self, columns: dict[str, list[str]]) -> dict[str, np.ndarray]:
        """Of rows of text."""
        given = {argument: tf.constant(columns[name]) for name, argument in self.arguments.items()}
        return {name: one.numpy() for name, one in self.model.signatures["rows_of_text"](**given).items()}


def cells_of(path: Path, names: list[str] | None = None, **options: object) -> dict[str, list[str]]:
    """The columns of a CSV as Python reads them."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file, **options) if row]
    names = names or [name.strip() for name in rows.pop(0)]
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


FEATURES = {
    "Größe": {"type": "numeric", "indicator": True}, "income": {"type": "numeric", "scale": "log"},
    "band": {"type": "bucket", "column": "income", "buckets": 4}, "kind": "categorical",
    "code": {"type": "categorical", "hash": 7}, "both": {"type": "cross", "of": ["kind", "code"], "hash": 11},
    "born": {"type": "date", "parts": ["day", "month", "weekday"]}, "member": "numeric",
    "row": "pass",
}  # fmt: skip
TRAIN = {"model": {"name": "tabular", "units": [5]}, "task": {"name": "classify", "target": "y"}, "workdir": "-"}


def write_odd_csv(path: Path, rows: int = 300) -> None:
    """Numbers with decimal commas and groups, dates with the day first, white space, and words for nothing."""
    rng = np.random.default_rng(4)
    nothing = ["?", "NA", "", "-", "fehlt", "#NV"]

    def some(value: str, share: float = 0.15) -> str:
        text = str(rng.choice(nothing)) if rng.random() < share else value
        return f" {text}{rng.choice(['', ' ', chr(160)])}"

    lines = ["row; Größe; income; kind; code; born; member; y"]
    for row in range(rows):
        income = f"{int(rng.integers(1, 9))}.{int(rng.integers(0, 999)):03d},{int(rng.integers(0, 99)):02d}"
        born = f"{rng.integers(1, 29):02d}.{rng.integers(1, 13)}.{rng.integers(1930, 2024)}"
        size = f"{rng.normal(170, 10):.1f}".replace(".", ",") if row % 50 != 7 else "1,7m"  # set aside
        kind = some(str(rng.choice(["Büro", "Feld", "Heim"])))
        lines.append(
            f"{row};{some(size, 0.15 * (row % 50 != 7))};{some(income)};{kind}"
            f";{some(str(rng.choice(['7', '7,0', '07', '1,5'])))};{some(born)};{rng.choice(['True', 'false', 'NA'])}"
            f"; {rng.choice(['ja', 'nein'])}"
        )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def job_of(folder: Path, files: str, **csv: object) -> Path:
    job = {
        "name": "odd", "source": {"kind": "table", "files": str(folder / files), "csv": csv}, "features": FEATURES,
        "label": {"name": "y", "column": "y", "classes": ["ja", "nein"]},
        "split": {"by": "row", "train": 0.8, "eval": 0.1, "test": 0.1}, "output": {"path": "-"}, "train": TRAIN,
        "limits": {"max_rejected_fraction": 0.2}, "launch": {"preprocess": {"workers": 1}},
    }  # fmt: skip
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(job, sort_keys=False))
    return path


@pytest.fixture(scope="module")
def odd(tmp_path_factory) -> tuple[Path, Served]:
    """An odd CSV, and the model of its rows."""
    folder = tmp_path_factory.mktemp("odd")
    write_odd_csv(folder / "odd.csv")
    return folder / "odd.csv", Served(job_of(folder, "odd.csv", null_words=["fehlt"]), folder)


@pytest.mark.slow
def test_rows_of_an_odd_csv_are_predicted_as_their_prepared_ones(odd):
    path, served = odd
    expected, wrong = served.prepared(path)
    cells = cells_of(path, delimiter=";")
    found = served.predict(cells)
    assert {row for row, reason in enumerate(found["reason"]) if reason} == wrong == set(range(7, 300, 50))
    assert found["reason"][7].decode() == "Größe: '1,7m' is not a number"
    assert np.isnan(found["probabilities"][sorted(wrong)]).all()
    assert set(found["class"][sorted(wrong)]) == {b""}
    right = [row for row in range(300) if row not in wrong]
    np.testing.assert_allclose(found["probabilities"][right], expected[right], atol=1e-6)
    assert len(np.unique(expected[right, 0].round(4))) > 100  # predictions hang on what was read
    assert served.check_rows_of_file() == [f"{path}, row {row}" for row in range(7)]  # the next one is set aside
    numbers = {"serving_default", "examples", "preprocessed", "columns", "rows_of_text"}
    assert set(served.model.signatures) == numbers
    # Numbers and times as such, texts as the file has them.
    typed = served.model.signatures["serving_default"]
    given = {
        "Gr_e": [170.5, np.nan], "income": [1234.5, 99.0], "kind": [" Büro ", " ?"], "code": ["7", "fehlt"],
        "born": np.array([0, np.iinfo("i8").min]), "member": [1.0, np.nan],
    }  # fmt: skip
    kinds = {name: spec.dtype for name, spec in typed.structured_input_signature[1].items()}
    one = typed(**{name: tf.constant(values, kinds[name]) for name, values in given.items()})["probabilities"]
    text = {"Größe": ["170,5", "NA"], "income": ["1.234,50", "99"], "kind": ["Büro", ""], "code": [" 7", "-"],
            "born": ["1.1.1970", "?"], "member": ["TRUE", ""]}  # fmt: skip
    np.testing.assert_allclose(one, served.predict(text)["probabilities"], atol=1e-6)


def test_a_text_that_is_no_word_for_nothing_does_not_become_one(tmp_path):
    """`NONE` is none, but `none` is, which it becomes in a column that holds true and false."""
    path, job = tmp_path / "flags.csv", job_of(tmp_path, "flags.csv")
    flags = [("True", "FALSE", "none", "true")[i % 4] for i in range(200)]
    rows = [f"{i},{flag},{('ja', 'nein')[i // 2 % 2]}" for i, flag in enumerate(flags)]
    path.write_text("x,flag,y\n" + "\n".join(rows) + "\n")
    features = {"x": "numeric", "flag": "categorical"}
    job.write_text(yaml.safe_dump(yaml.safe_load(job.read_text()) | {"features": features}))
    served = Served(job, tmp_path)
    assert read_raw_values(served.layout.raw_values).columns["flag"].bools
    texts = ["NONE", "none", "other", "True", "TRUE"]
    found = served.predict({"x": ["1"] * 5, "flag": texts})["probabilities"]
    schema = resolve_schema(served.job, storage.match(str(path), (".csv",)))
    names = {"x": pa.array(np.ones(5)), "flag": pa.array(texts), "y": pa.array(["ja"] * 5)}
    batch = pa.RecordBatch.from_pydict({name: names[name] for name in schema.names} | {BAD: pa.nulls(5, pa.string())})
    fields = load_transformer(served.layout.root)(to_rows(str(path), 0, batch, schema, {}).columns)
    given = {name: tf.constant(fields[name]) for name in served.inputs}
    np.testing.assert_allclose(found, served.model.signatures["preprocessed"](**given)["probabilities"], atol=1e-6)
    assert found[1, 0] != found[0, 0] == found[2, 0] != found[3, 0] == found[4, 0]


def test_rows_of_parquet_are_predicted_as_their_prepared_ones(tmp_path):
    rng = np.random.default_rng(5)
    rows = 300
    table = pa.table({
        "row": pa.array(range(rows)), "Größe": pa.array(rng.normal(170, 10, rows), mask=rng.random(rows) < 0.1),
        "income": pa.array(np.exp(rng.normal(9, 2, rows)), pa.float32()).cast(pa.float64()).cast(pa.decimal128(30, 2)),
        "kind": pa.array(rng.choice(["Büro", " ?", "NA", ""], rows)).dictionary_encode(),
        "code": pa.array(rng.choice([7.0, 0.5, 1e16, -0.0, 12.25], rows), mask=rng.random(rows) < 0.1),
        "born": pa.array(rng.integers(-10**9, 10**9, rows), pa.timestamp("s")).cast(pa.timestamp("us", "UTC")),
        "member": pa.array(rng.random(rows) < 0.5, mask=rng.random(rows) < 0.1),
        "y": pa.array(rng.choice(["ja", "nein"], rows)),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "odd.parquet")
    served = Served(job_of(tmp_path, "odd.parquet"), tmp_path)
    expected, wrong = served.prepared(tmp_path / "odd.parquet")
    assert not wrong
    cells = {name: table[name].cast(pa.string()).fill_null("").to_pylist() for name in table.column_names}
    found = served.predict(cells)
    assert set(found["reason"]) == {b""}
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-6)
    assert len(np.unique(expected[:, 0].round(4))) > 100
    assert len(served.check_rows_of_file()) == 16


def test_rows_that_the_graph_does_not_read_as_preprocessing_did_are_told_with_their_place(odd, tmp_path):
    """The last test of this dataset: it spoils it."""
    _, served = odd
    rows = read_raw_rows(served.layout.raw_rows)
    sizes = rows.raw["Größe"].to_pylist()
    assert sizes[3].strip()  # the number is there
    other = pa.array([*sizes[:3], b"9,5", *sizes[4:]], pa.binary())
    write_raw_rows(served.layout.raw_rows, RawRows(rows.places, {**rows.raw, "Größe": other}, rows.fields))
    with pytest.raises(
        JobFailed, match=r"'rows_of_text' is .* where the model gives .*odd\.csv, row 3; do not serve it"
    ):
        served.check_rows_of_file()
    # So it is at the end of a training run.
    job, model = served.asked[0], served.asked[3]
    job = job.model_copy(update={"train": job.train.model_copy(update={"workdir": str(tmp_path / "run")})})
    (tmp_path / "run").mkdir()
    trained = TrainedModel(RESULT, model.get_weights(), [])
    with pytest.raises(JobFailed, match=r"odd\.csv, row 3; do not serve it"):
        export_run(job, served.manifest, trained)
    fewer = {name: one for name, one in rows.raw.items() if name != "kind"}
    numbers = {**rows.fields, served.inputs[0]: pa.array(["a"] * len(rows.places))}
    for wrong in (RawRows(rows.places, fewer, rows.fields), RawRows(rows.places, rows.raw, numbers)):
        write_raw_rows(served.layout.raw_rows, wrong)
        with pytest.raises(UserError, match=r"^the dataset's raw_rows\.parquet does not fit its manifest"):
            served.check_rows_of_file()
    data = Path(served.layout.raw_rows).read_bytes()
    Path(served.layout.raw_rows).write_bytes(data[:100])
    with pytest.raises(UserError, match=r"raw_rows\.parquet: damaged: .*; preprocess again$"):
        read_raw_rows(served.layout.raw_rows)
    assert read_raw_rows(str(tmp_path / "none.parquet")) is None


def test_rows_of_arrays_are_predicted_as_their_prepared_ones(tmp_path):
    rng = np.random.default_rng(6)
    wide, flags = rng.normal(50, 10, (300, 2, 3)), rng.random((300, 4)) < 0.5
    wide[2, 1, 1] = np.nan  # is set aside
    for name, values in {"wide": wide, "flags": flags, "y": rng.integers(0, 3, 300)}.items():
        np.save(tmp_path / f"{name}.npy", values)
    inputs = {"wide": {"files": str(tmp_path / "wide.npy"), "scale": "standard"}, "flags": str(tmp_path / "flags.npy")}
    outputs = {"files": str(tmp_path / "y.npy"), "classes": "auto"}
    job = {
        "name": "odd",
        "source": {"kind": "array", "inputs": inputs, "outputs": {"y": outputs}},
        "split": {"by": "row", "train": 0.8, "eval": 0.1, "test": 0.1}, "output": {"path": "-"},
        "train": {**TRAIN, "model": {"name": "multi_input", "units": [4]}},
        "limits": {"max_rejected_fraction": 0.2}, "launch": {"preprocess": {"workers": 1}},
    }  # fmt: skip
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    places = Served(tmp_path / "job.yaml", tmp_path).check_rows_of_file()
    assert places == [f"row {row}" for row in range(16) if row != 2]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["census", "sms", "fraud"])
def test_the_files_of_an_example_are_predicted_as_their_prepared_rows(tmp_path, root, data, name):
    job = root / "examples" / f"{name}.yaml"
    if name == "fraud":
        path = tmp_path / "day.parquet"
        shutil.copy(next((data / "fraud").glob("date=2018-07-25/*.parquet")), path)
        served = Served(job, tmp_path, f"source.files={path}", "split={by: row, train: 0.8, eval: 0.1, test: 0.1}")
        table = pq.read_table(path)
        cells = {one: table[one].cast(pa.string()).fill_null("").to_pylist() for one in table.column_names}
    else:
        path = data / {"census": "census/adult.csv", "sms": "sms/sms.tsv"}[name]
        served = Served(job, tmp_path, f"source.files={path}")
        keys = served.job.source.csv
        cells = cells_of(path, keys.names, **({"delimiter": "\t", "quoting": csv.QUOTE_NONE} if name == "sms" else {}))
    expected, wrong = served.prepared(path)
    found = served.predict(cells)
    assert {row for row, reason in enumerate(found["reason"]) if reason} == wrong == set()
    assert len(expected) == len(cells[next(iter(served.arguments))]) > 5000
    differ = np.abs(found["probabilities"] - expected).max(1) > 1e-5
    assert differ.sum() == 0
    assert len(np.unique(expected[:, 0].round(4))) > 100
    if name == "census":  # numbers as such, texts with the white space and the question marks of the file
        assert len(expected) == 32_561
        typed = served.model.signatures["serving_default"]
        kinds = {one: spec.dtype for one, spec in typed.structured_input_signature[1].items()}
        given = {
            argument: tf.constant(cells[one] if kinds[argument] == tf.string else np.array(cells[one], "f4"))
            for one, argument in served.arguments.items()
        }
        np.testing.assert_allclose(typed(**given)["probabilities"], expected, atol=1e-5)
