"""Who preprocesses loads no TensorFlow, whatever the kind of source; but for functions of the user's own."""

import json
import os
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
codes = [preprocess.main(["--job", job]) for job in sys.argv[1:]]
heavy = {"tensorflow", "tensorflow_transform", "keras", "tfx_bsl", "scipy", "sklearn", "matplotlib"} & set(sys.modules)
peak = re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]
print(json.dumps([codes, sorted(heavy), int(peak) >> 10]))
"""


def test_workers_load_no_tensorflow(tmp_path):
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
    done = subprocess.run([sys.executable, "-c", RUN, *jobs], capture_output=True, text=True, timeout=300, check=True)
    codes, heavy, megabytes = json.loads(done.stdout.splitlines()[-1])
    assert codes == [0] * 4, done.stderr
    assert heavy == []
    assert megabytes < 600
    for one in (fleet.output / fleet.manifest.data, lake.data, pile.data):
        assert (one / "transform_fn" / "saved_model.pb").exists()


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
    for first, code in (("os._exit(7)", 1), ("time.sleep(20)", 0)):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "late"), "FIRST": first}
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
        assert done.returncode == code, done.stderr
        assert (fleet.output / "manifest.json").exists() == (code == 0)
    assert (fleet.output / fleet.manifest.data / "transform_fn" / "saved_model.pb").exists()
