"""New files are scored by `beamfeed predict`, and by the lines of docs/serving.md: as the trainer measured."""

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

from beamfeed.pipelines.predict import main as predict_main
from beamfeed.pipelines.preprocess import main as preprocess_main
from beamfeed.trainer.main import main as train_main
from tests.exports import in_same_process

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def run(code: str) -> str:
    """What a program prints that knows nothing of this process."""
    done = subprocess.run([sys.executable, "-c", code], timeout=300, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def predict(folder: Path, out: Path, *options: object) -> None:
    assert predict_main(list(map(str, ("--job", folder / "job.yaml", "--out", out, *options)))) == 0


def train(job: Path) -> dict:
    """Both stages; the result."""
    with in_same_process():
        for stage in (preprocess_main, train_main):
            assert stage(["--job", str(job)]) == 0
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


def test_a_table_is_scored_as_the_trainer_did(tmp_path, capsys):
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
            "feed": {"batch_size": 32}, "epochs": 3, "review": {"baselines": "none"},
            "workdir": str(tmp_path / "model"),
        },
    }  # fmt: skip
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    head = "part; income; kind; day; good"
    (tmp_path / "all.csv").write_text("\n".join([head, *lines]) + "\n")
    result = train(tmp_path / "job.yaml")
    odd = [" new; viel; a; 01.02.2023; ja", " new; 1,5; a"]
    (tmp_path / "new.csv").write_text("\n".join([head, *lines[900:], *odd]) + "\n")
    out = tmp_path / "predictions"
    capsys.readouterr()
    predict(tmp_path, out, "--files", tmp_path / "new.csv", "--keep", "good,kind,income,day")
    assert "set aside: 2 rows" in capsys.readouterr().out
    scored = pq.read_table(out).sort_by("row").to_pylist()
    assert [row["row"] for row in scored] == list(range(300))
    rejects = [json.loads(line) for line in (out / "_rejects.jsonl").read_text().splitlines()]
    assert any("'viel' is not a number" in reject["reason"] for reject in rejects)
    hits = np.mean([row["class"] == row["good"].strip() for row in scored])
    assert hits == pytest.approx(result["test_metrics"]["accuracy"], abs=1e-6)
    assert hits > 0.7
    assert all(row["probability_ja"] > 0.5 for row in scored if row["class"] == "ja")
    # So do the lines of docs/serving.md, here of a file with commas.
    with (tmp_path / "commas.csv").open("w", newline="") as file:
        rows = csv.DictWriter(file, ["income", "kind", "day"])
        rows.writeheader()
        rows.writerows(
            dict(zip(["income", "kind", "day"], cells, strict=True))
            for cells in list(zip(*columns[1:4], strict=True))[900:]
        )
    code = lines_of_the_page(
        "rows_of_text", model=str(tmp_path / "model" / "saved_model"), file=str(tmp_path / "commas.csv")
    )
    printed = run(code + "\nprint(scored['class'].numpy().tolist())")
    assert printed.strip() == str([row["class"].encode() for row in scored])


def test_a_series_is_scored_as_the_trainer_did(tmp_path):
    fleet = Fleet(tmp_path)
    for number in range(8):
        fleet.write(f"a{number}.parquet", make_table(300, seed=number))
    fleet.job["train"] |= {"epochs": 1, "feed": {"batch_size": 32}}
    result = train(fleet.write_job())
    windows = fleet.windows("test")
    program, worst = [], []
    for name, some in windows.items():
        table = pq.read_table(fleet.files / f"{name}.parquet")
        (tmp_path / "new").mkdir(exist_ok=True)  # rows in any order
        pa.csv.write_csv(table.take(np.random.default_rng(0).permutation(len(table))), tmp_path / "new" / f"{name}.csv")
        code = lines_of_the_page(
            "rows", model=str(tmp_path / "model" / "saved_model"), file=str(fleet.files / f"{name}.parquet"), time="t"
        )
        program.append(code + "\nprint(times.to_pylist())")
        predict(tmp_path, tmp_path / name, "--files", tmp_path / "new" / f"{name}.csv")
        scored = pq.read_table(tmp_path / name).sort_by([("score", "descending")])
        worst.append(scored["time"].to_pylist()[:5])
        assert set(scored["start"].to_pylist()) == set(some)
    assert [json.loads(line) for line in run("\n".join(program)).splitlines()] == worst
    predict(tmp_path, tmp_path / "all", "--files", tmp_path / "new")
    scores = pq.read_table(tmp_path / "all")["score"].to_numpy()
    assert len(scores) == sum(map(len, windows.values()))
    assert scores.mean() == pytest.approx(result["test_loss"], rel=1e-4)
