"""Reports of real, small datasets and models of every kind, and how they are shown by a browser."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from sklearn.metrics import roc_auc_score

from beamfeed.contract.dataset import facts
from beamfeed.contract.dataset.manifest import read_manifest
from beamfeed.contract.text import size_text
from beamfeed.pipelines.predict import main as predict
from beamfeed.pipelines.report import main
from beamfeed.pipelines.score import main as score
from beamfeed.transforms.reporting import features
from tests.albums import Album
from tests.arrays import Pile
from tests.browser import CHROMIUM, DESKTOP, PHONE, look_at
from tests.fleets import Fleet, make_table
from tests.pipelines.test_predict import read
from tests.tables import Lake

MOST = 5_000_000


@pytest.fixture
def fleet(predicted_fleet: Fleet) -> Iterator[Fleet]:
    """As others have it, too: what is written into its working folder goes again."""
    scores, complete = (predicted_fleet.folder / "model" / name for name in ("scores", "complete.json"))
    shutil.rmtree(scores, ignore_errors=True)
    before = complete.stat()
    yield predicted_fleet
    shutil.rmtree(scores, ignore_errors=True)
    os.utime(complete, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture
def lake(trained_lake: Lake) -> Lake:
    return trained_lake


def report(tmp_path: Path, dataset: Path, *options: object) -> str:
    out = tmp_path / "report.html"
    arguments = [dataset, "--out", out, *options]
    assert main([str(argument) for argument in arguments]) == 0
    written = out.read_text()
    assert len(written.encode()) <= MOST
    assert not re.search(r"(?:src|href)=\"(?!data:|#)|<script|@import|url\(", written)
    return written


def titles(written: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", written)


@pytest.mark.slow
def test_series(fleet, tmp_path, capsys):
    job = fleet.folder / "job.yaml"
    options = fleet.output, "--job", job
    before = report(tmp_path, *options)
    assert f"<code>beamfeed score {job}</code>" in before
    assert score(["--job", str(job), "--risk", "0.02"]) == 0
    capsys.readouterr()
    assert main([str(fleet.output), "--job", str(job)]) == 0  # where it goes of itself
    assert capsys.readouterr().out.startswith(f"{fleet.folder}/model/report.html: ")
    written = (fleet.folder / "model" / "report.html").read_text()
    assert titles(written) == [
        "At a glance", "What went in", "What came out", "Features in train, eval and test", "Samples",
        "The training run", "Best and worst", "The latent space", "The oddest assets",
    ]  # fmt: skip
    for asset in ("m0", "m7"):
        assert asset in written
    told = json.loads((fleet.folder / "model" / "complete.json").read_text())
    assert f"{told['test_loss']:.4g}" in written
    found = read(fleet.folder / "model" / "predictions" / "test").to_pandas()
    for row in (found.loc[found["score"].idxmax()], found.loc[found["score"].idxmin()]):  # named by their own time
        assert f"error {row['score']:.4g}, {row['asset']}, from {row['time']}" in written
    shown = re.findall(r"<figcaption>(m\d+, from [^<]*?)</figcaption>", written)
    starts = {
        f"{row.asset}, from {row.time}"
        for split in ("train", "eval", "test")
        for row in read(fleet.folder / "model" / "predictions" / split).to_pandas().itertuples()
    }
    assert len(set(shown)) > 12
    assert set(shown) <= starts
    assert main([str(fleet.output)]) == 0
    assert titles((fleet.folder / "data-report.html").read_text())[-1] == "Samples"


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (apt-get install chromium)")
def test_a_browser_shows_it(fleet, tmp_path):
    report(tmp_path, fleet.output, "--job", fleet.folder / "job.yaml")
    for width in (PHONE, DESKTOP):
        seen = look_at(tmp_path / "report.html", width)
        assert seen.width <= width  # it does not scroll to the side
        assert (seen.said, seen.asked, seen.broken) == ([], [], 0)
        assert seen.images > 15
        assert "The latent space" in seen.text


def test_predictions_older_than_the_model_are_not_shown(fleet, tmp_path):
    job, complete = fleet.folder / "job.yaml", fleet.folder / "model" / "complete.json"
    complete.write_text(complete.read_text())
    written = report(tmp_path, fleet.output, "--job", job)
    assert "The predictions are older than the model" in written
    assert "The latent space" not in titles(written)


def test_a_table_with_classes(lake, tmp_path):
    job = lake.folder / "job.yaml"
    assert predict(["--job", str(job)]) == 0
    written = report(tmp_path, lake.output, "--job", job)
    assert "Answers on test" in titles(written)
    rows = read(lake.folder / "model" / "predictions" / "test").to_pandas()
    auc = roc_auc_score(rows["label"] == "1", rows["probability_1"])
    assert f"<dd>{auc:.4g}</dd>" in written
    accuracy = (rows["label"] == rows["class"]).mean()
    assert f"<dd>{accuracy:.2%}</dd>" in written
    assert "Missing values in training rows" in written
    assert "shop" in written  # categories by their names
    assert "city 1" in written


def test_images(tmp_path):
    album = Album(tmp_path)
    album.fill(24)
    assert album.preprocess() == 0
    written = report(tmp_path, album.output)
    assert written.count("data:image/png;base64,") > 8
    assert "label cats" in written


def test_arrays(tmp_path):
    pile, rng = Pile(tmp_path, inputs={"image": "image.npy", "sums": "sums.npy"}), np.random.default_rng(0)
    pile.write("image", rng.integers(0, 255, (60, 8, 8, 1)).astype("u1"))
    pile.write("sums", rng.normal(size=(60, 4)).astype("f4"))
    assert pile.preprocess() == 0
    written = report(tmp_path, pile.output)
    assert "sums[3]" in written
    assert "data:image/png;base64," in written


@pytest.mark.slow
def test_names_are_shown_as_they_are(tmp_path, monkeypatch):
    """Names that are HTML, or a formula, are text."""
    fleet = Fleet(tmp_path)
    for number in range(6):
        table = make_table(120, seed=number, features=30)
        names = ["<script>alert(1)</script>", "$\\alpha_{", *table.schema.names[3:]]
        fleet.write(f"m{number}&amp;.parquet", table.rename_columns(["t", *names]))
    fleet.job["source"]["features"] = ["<*", "$*", "x*"]
    assert fleet.preprocess() == 0
    written = report(tmp_path, fleet.output)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in written
    assert "m0&amp;amp;" in written
    assert "The 24 that differ most of 30 are drawn." in written
    monkeypatch.setattr(features, "MOST_FEATURES", 26)
    assert "The 24 that differ most of 26 are drawn. 4 more were not looked at." in report(tmp_path, fleet.output)


def test_what_was_set_aside(tmp_path, monkeypatch):
    fleet = Fleet(tmp_path)
    for number in range(6):
        fleet.write(f"m{number}.parquet", make_table(60, seed=number))
    (fleet.files / "broken.parquet").write_bytes(b"PAR1 not at all")
    assert fleet.preprocess() == 0
    monkeypatch.setattr("beamfeed.pipelines.report.attempt", lambda title, make: [])  # features and samples
    written = report(tmp_path, fleet.output)
    assert "Set aside, by reason<" in written
    assert "broken.parquet" in written
    manifest = read_manifest(str(fleet.output))
    rejects = Path(manifest.data_layout(str(fleet.output)).rejects)
    size = len(rejects.read_bytes())
    with rejects.open("ab") as file:
        file.write(b'{"file": "f", "place": "row 1", "reason": "is odd"}\n' * 9)
    monkeypatch.setattr(facts, "MOST_BYTES", size + 10)
    assert f"Set aside, by reason, in the first {size_text(size)} of {rejects}" in report(tmp_path, fleet.output)
    rejects.unlink()
    written = report(tmp_path, fleet.output)
    assert f"Why something was set aside cannot be read; see {rejects}" in written
    assert "Nothing was set aside" not in written


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["{tmp}/none"], "there is no dataset"),
        (["{data}", "--out", "{tmp}/report.txt"], "must be the name of a file that ends in .html"),
        (["{data}", "--job", "{tmp}/none.yaml"], "none.yaml"),
        (["{data}", "--out", "{tmp}/folder.html"], "is a folder"),
    ],
)
def test_mistakes(fleet, tmp_path, capsys, arguments, line):
    (tmp_path / "folder.html").mkdir()
    places = {"tmp": tmp_path, "data": fleet.output}
    assert main([argument.format(**places) for argument in arguments]) == 2
    error = capsys.readouterr().err
    assert line in error
    assert error.count("\n") == 1


def test_an_untrained_job_tells_what_to_do(fleet, tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text(yaml.safe_dump(fleet.job | {"train": fleet.job["train"] | {"workdir": str(tmp_path / "model")}}))
    written = report(tmp_path, fleet.output, "--job", job)
    assert "holds no trained model" in written
    assert titles(written)[-1] == "The model"


@pytest.mark.slow
def test_no_tensorflow_is_loaded(fleet, tmp_path):
    code = (
        "import sys; from beamfeed.pipelines.report import main; "
        f"code = main([{str(fleet.output)!r}, '--job', {str(fleet.folder / 'job.yaml')!r}, "
        f"'--out', {str(tmp_path / 'r.html')!r}]); sys.exit(code or 3 * ('tensorflow' in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
