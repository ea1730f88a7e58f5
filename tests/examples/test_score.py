"""The scripts that score new files, on small trained models: what they write is what the trainer measured."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml
from fleets import Fleet, make_table

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def run(*command) -> str:
    done = subprocess.run([sys.executable, *map(str, command)], timeout=300, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def fails(*command) -> str:
    """The one line of a mistake, but for what TensorFlow says when it is loaded."""
    done = subprocess.run([sys.executable, *map(str, command)], timeout=300, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    return done.stderr.strip().splitlines()[-1]


def train(job: Path) -> dict:
    """Both stages; the result."""
    for stage in ("pipelines.preprocess", "trainer.main"):
        run("-m", f"beamfeed.{stage}", "--job", job)
    return json.loads((job.parent / "model" / "complete.json").read_text())


def lines_of_the_page(signature: str, **replaced: str) -> str:
    """The lines of docs/serving.md that score a file by a signature, with other paths."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/serving.md").read_text(), re.DOTALL)
    (code,) = [block for block in blocks if f'model["{signature}"]' in block]
    for name, path in replaced.items():
        before = {"model": r'"out/\w+/model/saved_model"', "file": r'"new\.\w+"', "time": '"time"'}[name]
        code, count = re.subn(before, repr(path), code)
        assert count
    return code


def test_a_table_is_scored_as_the_trainer_did(tmp_path):
    rng = np.random.default_rng(0)
    rows = 1200
    income, kind = rng.normal(2000, 600, rows), rng.choice(["a", "b", "?"], rows)
    good = (income + 900 * (kind == "a") + rng.normal(0, 300, rows)) > 2300
    numbers = [f"{number:,.2f}".translate(str.maketrans(",.", ".,")) for number in income]
    days = [f"{rng.integers(1, 29):02d}.{rng.integers(1, 13)}.2023" for _ in range(rows)]
    columns = [["train"] * 900 + ["new"] * 300, numbers, kind, days, np.where(good, "ja", "nein")]
    lines = ["; ".join(cells) for cells in zip(*columns, strict=True)]
    job = {
        "name": "t", "source": {"kind": "table", "files": str(tmp_path / "all.csv")},
        "features": {"income": "numeric", "kind": "categorical", "day": {"type": "date", "parts": ["month"]}},
        "label": {"column": "good", "classes": ["nein", "ja"]},
        "split": {"by": "column", "column": "part", "train": ["train"], "test": ["new"]},
        "output": {"path": str(tmp_path / "data")}, "launch": {"preprocess": {"workers": 1}},
        "train": {
            "model": {"name": "tabular", "units": [8]}, "task": {"name": "classify", "metrics": ["accuracy"]},
            "feed": {"batch_size": 32}, "epochs": 3, "workdir": str(tmp_path / "model"),
        },
    }  # fmt: skip
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    head = "part; income; kind; day; good"
    (tmp_path / "all.csv").write_text("\n".join([head, *lines]) + "\n")
    result = train(tmp_path / "job.yaml")
    odd = [" new; viel; a; 01.02.2023; ja", " new; 1,5; a"]
    (tmp_path / "new.csv").write_text("\n".join([head, *lines[900:], *odd]) + "\n")
    model, out = tmp_path / "model", tmp_path / "scored.csv"
    said = run(ROOT / "examples/score_table.py", "--model", model, "--file", tmp_path / "new.csv", "--out", out,
               "--delimiter", ";")  # fmt: skip
    assert "1 rows up to line 303 have too many or too few values, left out" in said
    with out.open(newline="") as file:
        scored = list(csv.DictReader(file))
    assert len(scored) == 301
    assert scored[-1]["reason"] == "income: 'viel' is not a number"
    assert (scored[-1]["class"], scored[-1]["probabilities[ja]"]) == ("", "nan")
    good = scored[:-1]
    assert {row["reason"] for row in good} == {""}
    hits = np.mean([row["class"] == row["good"].strip() for row in good])
    assert hits == pytest.approx(result["test_metrics"]["accuracy"], abs=1e-6)
    assert hits > 0.7
    assert all(float(row["probabilities[ja]"]) > 0.5 for row in good if row["class"] == "ja")
    # So do the lines of the page, here of a file with commas.
    with (tmp_path / "commas.csv").open("w", newline="") as file:
        rows = csv.DictWriter(file, ["income", "kind", "day"], extrasaction="ignore")
        rows.writeheader()
        rows.writerows(scored)
    code = lines_of_the_page("rows_of_text", model=str(model / "saved_model"), file=str(tmp_path / "commas.csv"))
    told = run("-c", code + "\nprint(scored['class'].numpy().tolist())")
    assert told.strip() == str([row["class"].encode() for row in scored])
    # What is not as the model needs it is one line.
    (tmp_path / "nothing.csv").write_text("")
    (tmp_path / "wide.csv").write_bytes("income\n1\n".encode("utf-16"))
    for file, told in {
        "commas.csv": ", which the model needs (it has: income,kind,day)",
        "nothing.csv": "is empty",
        "wide.csv": "'utf-8' codec can't decode byte 0xff",
        "absent.csv": "No such file",
    }.items():
        assert told in fails(ROOT / "examples/score_table.py", "--model", model, "--file", tmp_path / file, "--out",
                             tmp_path / "none.csv", "--delimiter", ";")  # fmt: skip
    # Text of Parquet goes in just so; columns that are no values are left out.
    names = ["part", "income", "kind", "day", "good"]
    table = pa.table({name: [row[name] for row in scored] for name in names})
    for name, values in {"list": [[1]], "bytes": [b"\xff"], "struct": [{"a": 1}]}.items():
        table = table.append_column(name, pa.array(values * len(scored)))
    pq.write_table(table, tmp_path / "new.parquet")
    again = tmp_path / "again.csv"
    run(ROOT / "examples/score_table.py", "--model", model, "--file", tmp_path / "new.parquet", "--out", again)
    with again.open(newline="") as file:
        assert list(csv.DictReader(file)) == scored


def test_a_series_is_scored_as_the_trainer_did(tmp_path):
    fleet = Fleet(tmp_path)
    for number in range(8):
        fleet.write(f"a{number}.parquet", make_table(300, seed=number))
    fleet.job["train"] |= {"epochs": 1, "feed": {"batch_size": 32}}
    result = train(fleet.write_job())
    (windows,) = [fleet.windows("test")]
    scores, counts = [], []
    for name, some in windows.items():
        table = pq.read_table(fleet.files / f"{name}.parquet")
        new = tmp_path / f"{name}.csv"
        pa.csv.write_csv(table.take(np.random.default_rng(0).permutation(len(table))), new)  # it is sorted
        said = run(ROOT / "examples/score_series.py", "--model", tmp_path / "model", "--file", new, "--time", "t",
                   "--worst", 400)  # fmt: skip
        first, *worst = said.splitlines()
        assert first.startswith(f"{len(some):,} windows, 0 without a score; mean score ")
        values = [float(line.split(" from ")[0]) for line in worst]
        assert values == sorted(values, reverse=True)
        assert {int(line.split(" from ")[1]) for line in worst} == set(some)
        scores.append(float(first.rpartition(" ")[2]))
        counts.append(len(some))
        code = lines_of_the_page(
            "rows", model=str(tmp_path / "model" / "saved_model"), file=str(fleet.files / f"{name}.parquet"), time="t"
        )
        told = run("-c", code + "\nprint(times.to_pylist())")
        assert told.strip() == str([int(line.split(" from ")[1]) for line in worst[:5]])
    assert np.average(scores, weights=counts) == pytest.approx(result["test_loss"], rel=1e-4)
