"""Two inputs and two outputs from arrays: trained by one device, two devices and two workers, exported and served."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from sampling import sample

from beamfeed.trainer.main import main
from beamfeed.trainer.tools import inspect_dataset
from tests.arrays import Pile

pytestmark = pytest.mark.slow

ODD_WORKER = os.path.join(os.path.dirname(__file__), "odd_worker.py")
OUTPUTS = {
    "which": {"name": "classify", "target": "which", "weight": 2.0},
    "centre": {"name": "regress", "target": "centre", "weight": 0.5, "sample_weight": "trust"},
}


def make_arrays(rows: int) -> dict[str, np.ndarray]:
    """A bright square somewhere in an image: which quarter it is in, and where its centre is."""
    rng = np.random.default_rng(0)
    at = rng.integers(0, 6, (rows, 2))
    image = rng.integers(0, 60, (rows, 8, 8), "u1")
    for row, (y, x) in enumerate(at):
        image[row, y : y + 3, x : x + 3] += 150
    which = np.array(["low", "high"])[(at[:, 0] < 3).astype(int)]
    return {
        "image": image, "sums": image.sum(2).astype("f8"), "which": which, "centre": at + 1.0,
        "trust": rng.uniform(0.5, 1, rows),
    }  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    pile = Pile(
        tmp_path_factory.mktemp("squares"),
        inputs={"image": "image-*.npy", "sums": {"files": "sums.npy", "scale": "standard"}},
        outputs={"which": {"files": "which.npy", "classes": "auto"}, "centre": "centre.npy"},
        weights={"trust": "trust.npy"},
    )
    pile.arrays = make_arrays(1500)
    for name, values in pile.arrays.items():
        pile.write(name, values, (400,) if name == "image" else ())
    pile.job["train"] = {
        "model": {"name": "multi_input", "filters": [8, 8], "units": [32]},
        "task": {"outputs": OUTPUTS},
        "feed": {"batch_size": 30},
        "optimizer": {"name": "adam", "learning_rate": 0.005},
        "epochs": 4,
        "review": {"baselines": "none"},
        "workdir": str(pile.folder / "model"),
    }
    assert pile.preprocess() == 0
    assert main(["--job", pile.job_file()]) == 0
    return pile


def run(arguments: list[str]) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def result(pile, workdir: str = "model") -> dict:
    return json.loads((pile.folder / workdir / "complete.json").read_text())


def test_both_outputs_are_learned(trained):
    assert (trained.folder / "model" / "report.png").stat().st_size > 10_000
    metrics = result(trained)["test_metrics"]
    assert metrics["which_accuracy"] > 0.9
    assert metrics["centre_root_mean_squared_error"] < 1.0  # of about 1.7 without learning


def test_the_loss_is_the_sum_of_both_by_their_weights(trained):
    with open(trained.folder / "model" / "metrics.jsonl") as file:
        lines = [json.loads(line) for line in file]
    for line in lines:
        both = 2.0 * line["which_loss"] + 0.5 * line["centre_loss"]
        assert line["loss"] == pytest.approx(both, rel=1e-5)


@pytest.mark.parametrize("how", sample(["devices", "workers"], ["workers"]))
def test_two_devices_and_two_workers_learn_the_same(trained, how):
    if how == "devices":
        workdir = ["--set", f"train.workdir={trained.folder}/devices"]
        run([ODD_WORKER, "--devices", "2", "--job", trained.job_file(), *workdir])
    else:
        workdir = ["--set", f"train.workdir={trained.folder}/workers"]
        more = ["--set", "launch.train.workers=2"]
        run(["-m", "beamfeed.launcher.cli", "train", trained.job_file(), *more, *workdir])
    one, two = result(trained), result(trained, how)
    assert two["workers"] == (2 if how == "workers" else 1)
    assert one["first_loss"] == pytest.approx(two["first_loss"], rel=1e-6)
    # Rounding grows some tenfold in an epoch here: convolutions choose the largest of their values.
    for key in ("last_loss", "best_loss", "test_loss"):
        assert one[key] == pytest.approx(two[key], rel=1e-2), key


def test_the_exported_model_takes_arrays_as_the_files_have_them(trained):
    model = tf.saved_model.load(str(trained.folder / "model" / "saved_model"))
    arrays = trained.arrays
    serve = model.signatures["serving_default"]
    found = serve(image=tf.constant(arrays["image"]), sums=tf.constant(arrays["sums"].astype("f4")))
    said = np.array([name.decode() for name in found["which_class"].numpy()])
    assert (said == arrays["which"]).mean() > 0.9
    assert found["centre_prediction"].shape == (1500, 2)
    assert np.abs(found["centre_prediction"] - arrays["centre"]).mean() < 0.8
    told = model.signatures["inputs"]()
    assert told["inputs"].numpy().tolist() == [b"image", b"sums"]
    assert told["which_classes"].numpy().tolist() == [b"high", b"low"]
    # What records hold gives the same.
    rows = trained.rows("test")
    numbers = sorted(rows)[:20]
    again = model.signatures["preprocessed"](
        image=tf.constant(np.stack([rows[number]["image"] for number in numbers])),
        sums=tf.constant(np.stack([rows[number]["sums"] for number in numbers])),
    )
    tf.debugging.assert_near(again["centre_prediction"], tf.gather(found["centre_prediction"], numbers), atol=1e-4)


def test_inspect_shows_it(trained, capsys):
    assert inspect_dataset.main([str(trained.output)]) == 0
    told = capsys.readouterr().out
    assert "image" in told
    assert "uint8" in told
    assert inspect_dataset.main([str(trained.output), "--verify"]) == 0
    assert "OK: " in capsys.readouterr().out
