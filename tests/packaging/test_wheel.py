"""The wheel, as the image and a laptop install it: it must need nothing of the checkout."""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections import Counter

import pytest
from fleets import files_of, make_table
from packaging_tools import FOLDERS, run

pytestmark = pytest.mark.slow


def modules(root):
    """Every module of ours, with its file in the checkout relative to the folder above."""
    yield "beamfeed", "beamfeed/__init__.py"
    yield "beamfeed.__main__", "beamfeed/__main__.py"
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            yield f"beamfeed.{name}", str(path.relative_to(root))


def test_the_wheel_installs_one_name_and_every_module_once(root, built):
    names = zipfile.ZipFile(built.wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {"beamfeed", "beamfeed-0.1.0.dist-info"}
    ours = [name for name in names if name.startswith("beamfeed/")]
    expected = ["beamfeed/py.typed", *("beamfeed/" + file.removeprefix("beamfeed/") for _, file in modules(root))]
    assert sorted(ours) == sorted(expected)


def test_the_packages_page_links_to_nothing_that_only_a_clone_has(built):
    with zipfile.ZipFile(built.wheel) as wheel:
        page = wheel.read("beamfeed-0.1.0.dist-info/METADATA").decode()
    assert "# Beamfeed" in page
    assert "[tutorial](" not in page.lower()
    assert not re.findall(r"\]\((?!https?://)[^)]*\)", page)
    assert not re.findall(r"^(?:Project-URL|Home-page):", page, re.MULTILINE)


def test_the_sdist_builds_the_same_wheel(built, tmp_path):
    with tarfile.open(built.sdist) as archive:
        archive.extractall(tmp_path)  # our own
    (source,) = tmp_path.iterdir()
    build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path), str(source)]
    run(*build)
    (again,) = tmp_path.glob("*.whl")
    assert contents(again) == contents(built.wheel)


def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.startswith("beamfeed/")}


def test_every_module_is_imported_from_the_wheel(root, wheel_python, tmp_path, clean_env):
    names = [name for name, _ in modules(root) if ".torch_" not in name]  # PyTorch is an extra
    code = (
        "import importlib, sys\n"
        f"for name in {names!r}:\n"
        "    module = importlib.import_module(name)\n"
        "    assert (module.__file__ or '').startswith(sys.prefix), (name, module.__file__)\n"
    )
    run(wheel_python, "-c", code, cwd=tmp_path, env=clean_env)


# Notes down, for each process, that it imports TensorFlow and which files of the checkout it opens.
WATCH = """
import os, sys

def note(event, args):
    if event == "import" and args[0] in ("tensorflow", "apache_beam"):
        what = args[0]
    elif event == "open" and isinstance(args[0], str) and args[0].startswith({checkout!r} + "/"):
        what = args[0]
    else:
        return
    if not what.startswith({dependencies!r}):
        file = os.open({log!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, f"{{os.getpid()}} {{what}}\\n".encode())
        os.close(file)

sys.addaudithook(note)
"""


def test_workers_in_processes_of_their_own(root, wheel_python, fleet, tmp_path):
    for i in range(24):
        fleet.write(f"m{i}.parquet", make_table(500, seed=i))
    fleet.job["output"]["shards"] = 6
    assert fleet.preprocess() == 0
    expected = files_of(fleet.output)

    for name in ("empty", "watch"):
        (tmp_path / name).mkdir()
    log, dependencies = tmp_path / "log.txt", sysconfig.get_path("purelib")
    watch = WATCH.format(checkout=str(root), dependencies=dependencies, log=str(log))
    (tmp_path / "watch" / "sitecustomize.py").write_text(watch)
    fleet.job["output"]["path"] = str(tmp_path / "installed")
    run(
        wheel_python, "-m", "beamfeed.pipelines.preprocess", "--job", str(fleet.write_job()),
        "--direct_running_mode=multi_processing", "--direct_num_workers=2",
        cwd=tmp_path / "empty", env={**os.environ, "PYTHONPATH": str(tmp_path / "watch")},
    )  # fmt: skip
    assert files_of(tmp_path / "installed") == expected
    assert list((tmp_path / "empty").iterdir()) == []

    noted = [line.split(" ", 1) for line in log.read_text().splitlines()]
    of_beam, of_tensorflow = (
        Counter(pid for pid, what in noted if what == name) for name in ("apache_beam", "tensorflow")
    )
    assert len(of_beam) == 3  # the runner and two workers, for all bundles
    assert len(of_tensorflow) == 1  # the process that traces
    assert not set(of_beam) & set(of_tensorflow)
    assert {*of_beam.values(), *of_tensorflow.values()} == {1}
    assert [what for _pid, what in noted if what not in ("apache_beam", "tensorflow")] == []


def test_the_command_runs_from_an_empty_folder(wheel_python, tmp_path, clean_env):
    command = os.path.join(os.path.dirname(wheel_python), "beamfeed")
    assert "beamfeed run" in run(command, "--help", cwd=tmp_path, env=clean_env)
    assert run(command, "--version", cwd=tmp_path, env=clean_env) == "beamfeed 0.1.0\n"
    assert os.listdir(tmp_path) == []


USERS_SCRIPT = """
import beamfeed

job = beamfeed.load_job("job.yaml", ["windows.stride=4"])
windows = beamfeed.Windows(length=8)
missing = beamfeed.Missing(fill="forward")
manifest: beamfeed.Manifest = beamfeed.preprocess(job, max_assets=2)
result: beamfeed.TrainResult = beamfeed.train(job)
loss: float = result.best_loss
both: beamfeed.RunResult = beamfeed.run("job.yaml")
steps: int = manifest.splits["train"].windows // 8
beamfeed.load_dataset("out", "train", batch_size=8, distribution=beamfeed.Distribution(workers=2))
beamfeed.ReadTimeseries("t", ["x"], windows, missing)
version: str = beamfeed.__version__
"""


def test_a_users_script_is_type_checked_against_the_wheel(wheel_python, tmp_path, clean_env):
    mypy = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--python-executable", wheel_python]
    (tmp_path / "good.py").write_text(USERS_SCRIPT)
    (tmp_path / "bad.py").write_text('import beamfeed\n\nbeamfeed.load_dataset("out", "trian", batch_size=8)\n')
    found = subprocess.run([*mypy, "good.py", "bad.py"], cwd=tmp_path, env=clean_env, capture_output=True, text=True)
    assert 'bad.py:3: error: Argument 2 to "load_dataset" has incompatible type' in found.stdout
    assert "Found 1 error in 1 file (checked 2 source files)" in found.stdout
