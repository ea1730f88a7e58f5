"""Digits from two inputs, as docs/results.md has it: which digit, and is it even."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from exports import in_same_process

from beamfeed.pipelines.preprocess import main as preprocess
from beamfeed.trainer.arrays.load import load_arrays
from beamfeed.trainer.main import main as train

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def run(*command):
    done = subprocess.run([sys.executable, *map(str, command)], timeout=600, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    told = run(ROOT / "examples" / "make_digits.py", "--out", folder / "arrays")
    assert told == f"{folder}/arrays: 1,797 digits\n"
    return folder


def test_the_files_are_those_of_scikit_learn(digits):
    from sklearn.datasets import load_digits

    files = {name: str(digits / "arrays" / f"{name}.npy") for name in ("sums", "digit", "even")}
    (found,) = load_arrays({"image": str(digits / "arrays" / "image-*.npy"), **files}, batch_size=1797)
    image, digit = found["image"].numpy(), found["digit"].numpy()
    np.testing.assert_array_equal(found["sums"], image.sum(2))
    np.testing.assert_array_equal(found["even"], digit % 2 == 0)
    wanted = load_digits()
    known = {one.tobytes(): int(target) for one, target in zip(wanted.images.astype("u1"), wanted.target, strict=True)}
    assert sorted(digit) == sorted(wanted.target)
    assert all(known[one.tobytes()] == target for one, target in zip(image, digit, strict=True))


def test_digits_are_told_apart(digits):
    keys = {
        "source.files": digits / "arrays", "output.path": digits / "data", "train.workdir": digits / "model",
        "train.seed": 1, "train.feed.seed": 1, "train.review.baselines": "none", "train.evaluate_every": 195,
    }  # fmt: skip
    sets = [part for key, value in keys.items() for part in ("--set", f"{key}={value}")]
    with in_same_process():
        for stage in (preprocess, train):
            assert stage(["--job", str(ROOT / "examples" / "digits.yaml"), *sets]) == 0
    metrics = json.loads((digits / "model" / "complete.json").read_text())["test_metrics"]
    assert metrics["digit_accuracy"] >= 0.97
    assert metrics["even_accuracy"] >= 0.97
