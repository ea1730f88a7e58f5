"""Arrays in a bucket: preprocessed as on a disk, by ranges, and fed without a dataset."""

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.arrays import Pile

pytestmark = pytest.mark.slow

SOURCE = {
    "inputs": {"image": "image-*.npy", "packed": {"files": "more.npz", "scale": "standard"}, "deep": "deep.h5"},
    "outputs": {"digit": {"files": "digit.npy", "classes": "auto"}},
}
ROWS = 40_000


@pytest.fixture(scope="module")
def local(tmp_path_factory) -> Pile:
    pile = Pile(tmp_path_factory.mktemp("local"), **SOURCE)
    rng = np.random.default_rng(0)
    pile.write("image", rng.integers(0, 255, (ROWS, 10, 10), "u1"), (15_000,))
    pile.write("digit", np.arange(ROWS) % 3)
    np.savez_compressed(pile.files / "more.npz", packed=rng.random((ROWS, 2)))
    with h5py.File(pile.files / "deep.h5", "w") as file:
        file.create_dataset("deep", data=rng.integers(0, 9, (ROWS, 3)), chunks=(5000, 3), compression="gzip")
    assert pile.preprocess() == 0
    return pile


def test_the_shards_are_those_of_a_disk_and_npy_is_read_by_ranges(gs, local, tmp_path):
    pile = Pile(tmp_path)
    pile.job = json.loads(json.dumps(local.job))
    pile.job["source"]["files"] = gs.upload(local.files, "arrays")
    pile.job["output"]["path"] = gs.url("data")
    done = gs.preprocess("--job", gs.upload(Path(pile.job_file()), "job.yaml"))
    assert (done.returncode, done.stderr) == (0, "")
    folder = json.loads(gs.read("data/manifest.json"))["data"]
    found = {name: gs.read(f"data/{folder}/{name}") for name in gs.list(f"data/{folder}")}
    assert {name: data for name, data in found.items() if name.endswith(".tfrecord")} == local.shards()
    compared = gs.python("-m", "beamfeed", "compare", gs.url("data"), str(local.output))
    assert (compared.returncode, compared.stderr) == (0, "")
    assert "0 of 3 columns drifted" in compared.stdout
    requests = gs.source_requests("arrays")
    assert requests["list"] == 4  # one for each array
    assert requests["whole"] == 0


def test_load_arrays_reads_them(gs, local):
    folder = gs.upload(local.files, "arrays")
    code = (
        "import beamfeed, json, sys\n"
        f"batches = beamfeed.load_arrays({{'image': '{folder}/image-*.npy'}}, {{'digit': '{folder}/digit.npy'}},"
        " batch_size=10_000)\n"
        "print(json.dumps([[int(x['image'].numpy().astype(int).sum()), y['digit'].numpy()[:4].tolist()]"
        " for x, y in batches]))"
    )
    env = {**os.environ, **gs.env}
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=gs.root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    images = np.concatenate([np.load(local.files / f"image-{number}.npy") for number in range(2)])
    wanted = [[int(images[first : first + 10_000].astype(int).sum()), [(first + k) % 3 for k in range(4)]]
              for first in range(0, ROWS, 10_000)]  # fmt: skip
    assert json.loads(done.stdout.splitlines()[-1]) == wanted
