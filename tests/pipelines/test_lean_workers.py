"""Who preprocesses loads no TensorFlow, whatever the kind of source; but for functions of the user's own."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import yaml

from tests.albums import Album
from tests.arrays import Pile
from tests.fleets import Fleet, make_table
from tests.tables import Lake
from tests.tables import make_table as make_rows

RUN = r"""
import json, re, sys
from beamfeed.pipelines import preprocess
heavy, *jobs = sys.argv[1:]
codes = [preprocess.main(["--job", job]) for job in jobs]
heavy = set(heavy.split()) & set(sys.modules)
peak = re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]
print(json.dumps([codes, sorted(heavy), int(peak) >> 10]))
"""

# Goes before every other module, and lets workers import nothing that is `HEAVY`.
LEAN = """
import os, sys

class Lean:
    def find_spec(self, name, path=None, target=None):
        if name in os.environ["HEAVY"].split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

if any("sdk_worker_main" in argument for argument in sys.orig_argv):
    sys.meta_path.insert(0, Lean())
    with open(os.environ["STARTED"], "a") as started:
        started.write("one\\n")
"""


@pytest.fixture(scope="module")
def heavy(root):
    """The modules of packages that beamfeed[worker] does not install."""
    worker, others = (
        set(re.findall(r"^([a-z0-9-]+)(?:\[.*\])?==", (root / f"{lock}.lock").read_text(), flags=re.M))
        for lock in ("requirements-worker", "requirements")
    )
    names = {
        module
        for module, packages in importlib.metadata.packages_distributions().items()
        if (normal := {re.sub("[-_.]+", "-", package).lower() for package in packages}) & others and not normal & worker
    }
    assert {"tensorflow", "tensorflow_transform", "keras", "tfx_bsl", "scipy", "sklearn", "matplotlib"} <= names
    return names


@pytest.fixture
def jobs(tmp_path):
    """A job of each kind, and where their datasets are."""
    fleet, lake, album = (kind(tmp_path / kind.__name__) for kind in (Fleet, Lake, Album))
    pile = Pile(tmp_path / "Pile", inputs={"x": {"files": "x.npy", "scale": "standard"}})
    for number in range(6):
        fleet.write(f"m{number}.parquet", make_table(50, seed=number))
    fleet.job["prepare"] = {"scale": {"per": "asset", "how": "robust"}}
    lake.write("rows.parquet", make_rows(300))
    pile.write("x", np.random.default_rng(1).normal(size=(40, 3)).astype("f4"))
    album.fill()
    jobs = [str(fleet.write_job()), str(tmp_path / "lake.yaml"), pile.job_file(), str(album.write_job())]
    (tmp_path / "lake.yaml").write_text(yaml.safe_dump(lake.job, sort_keys=False))
    return jobs, [lambda: fleet.output / fleet.manifest.data, lambda: lake.data, lambda: pile.data]


def test_workers_load_no_tensorflow(jobs, heavy):
    jobs, datasets = jobs
    command = [sys.executable, "-c", RUN, " ".join(heavy), *jobs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    codes, loaded, megabytes = json.loads(done.stdout.splitlines()[-1])
    assert codes == [0] * 4, done.stderr
    assert set(loaded) <= {"_distutils_hack", "cloudpickle", "dill", "pandas"}  # Beam loads them where they are there
    assert megabytes < 600
    for dataset in datasets:
        assert (dataset() / "transform_fn" / "saved_model.pb").exists()


@pytest.mark.slow
def test_workers_run_where_nothing_but_their_extra_is_installed(jobs, heavy, tmp_path):
    (tmp_path / "lean").mkdir()
    (tmp_path / "lean" / "sitecustomize.py").write_text(LEAN)
    lean = {"PYTHONPATH": str(tmp_path / "lean"), "HEAVY": " ".join(heavy), "STARTED": str(tmp_path / "started")}
    for job in jobs[0][:2]:  # of the others the test above shows what they load
        command = [sys.executable, "-m", "beamfeed.pipelines.preprocess", "--job", job]
        command += ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **lean})
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "started").read_text().split() == ["one"] * 2
        (tmp_path / "started").unlink()
    for dataset in jobs[1][:2]:
        assert (dataset() / "transform_fn" / "saved_model.pb").exists()


@pytest.mark.slow
def test_workers_of_other_processes_find_the_graph_however_long_it_takes(tmp_path):
    """The process that traces begins late, or not at all: no dataset is published without its graph."""
    fleet = Fleet(tmp_path)
    for number in range(6):
        fleet.write(f"m{number}.parquet", make_table(50, seed=number))
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "sitecustomize.py").write_text(
        "import os, sys, time\nif 'main()' in ' '.join(sys.orig_argv): exec(os.environ['FIRST'])\n"
    )
    command = [sys.executable, "-m", "beamfeed.pipelines.preprocess", "--job", str(fleet.write_job())]
    command += ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    for first, code in (("os._exit(7)", 1), ("time.sleep(8)", 0)):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "late"), "FIRST": first}
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
        assert done.returncode == code, done.stderr
        assert (fleet.output / "manifest.json").exists() == (code == 0)
    assert (fleet.output / fleet.manifest.data / "transform_fn" / "saved_model.pb").exists()
