"""The wheel, as the image and a laptop install it: it must need nothing of the checkout."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections import Counter

import pytest
from fleets import files_of, make_table

PACKAGES = ("contract", "transforms", "pipelines", "trainer", "launcher")
pytestmark = pytest.mark.long


def run(*command, **options):
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def built(root, tmp_path_factory):
    """sdist and wheel, from a copy: a build leaves files in the tree."""
    folder = tmp_path_factory.mktemp("built")
    source = folder / "source"
    source.mkdir()
    for name in (*PACKAGES, "setup.py", "pyproject.toml", "README.md", "LICENSE"):
        copy = shutil.copytree if (root / name).is_dir() else shutil.copy
        copy(root / name, source / name)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(source))
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def python(built, tmp_path_factory):
    """Of an environment with the wheel in it; a path file lends it the dependencies, but not the checkout."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    python = str(folder / "bin" / "python")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", str(built[0]))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")  # its own .pth files are not read
    return python


def modules(root):
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_both_hold_every_module(root, built):
    wheel, sdist = built
    in_wheel = set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    for package in PACKAGES:
        for path in (root / package).rglob("*.py"):
            name = str(path.relative_to(root))
            assert name in in_wheel
            assert name in in_sdist


def test_every_module_is_imported_from_the_wheel(root, python, tmp_path):
    names = [name for name in modules(root) if not name.endswith("__main__")]
    code = (
        "import importlib, sys\n"
        f"for name in {names!r}:\n"
        "    module = importlib.import_module(name)\n"
        "    assert (module.__file__ or '').startswith(sys.prefix), (name, module.__file__)\n"
    )
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run(python, "-c", code, cwd=tmp_path, env={**env, "TF_CPP_MIN_LOG_LEVEL": "2"})


# Notes down, for each process, that it imports TensorFlow and which files of the checkout it opens.
WATCH = """
import os, sys

def note(event, args):
    if event == "import" and args[0] == "tensorflow":
        what = "tensorflow"
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


def test_workers_in_processes_of_their_own(root, python, fleet, tmp_path):
    for i in range(24):
        fleet.write(f"m{i}.parquet", make_table(500, seed=i))
    fleet.job["output"]["shards"] = 6
    assert fleet.prepare() == 0
    expected = files_of(fleet.output)

    for name in ("empty", "watch"):
        (tmp_path / name).mkdir()
    log, dependencies = tmp_path / "log.txt", sysconfig.get_path("purelib")
    watch = WATCH.format(checkout=str(root), dependencies=dependencies, log=str(log))
    (tmp_path / "watch" / "sitecustomize.py").write_text(watch)
    fleet.job["output"]["path"] = str(tmp_path / "installed")
    run(
        python, "-m", "beamfeed.pipelines.preprocess", "--job", str(fleet.write_job()),
        "--direct_running_mode=multi_processing", "--direct_num_workers=2",
        cwd=tmp_path / "empty", env={**os.environ, "PYTHONPATH": str(tmp_path / "watch")},
    )  # fmt: skip
    assert files_of(tmp_path / "installed") == expected
    assert list((tmp_path / "empty").iterdir()) == []

    noted = [line.split(" ", 1) for line in log.read_text().splitlines()]
    imports = Counter(pid for pid, what in noted if what == "tensorflow")
    assert len(imports) == 3  # the runner and two workers, for all bundles
    assert set(imports.values()) == {1}
    assert [what for _pid, what in noted if what != "tensorflow"] == []


def test_the_command_runs_from_an_empty_folder(python, tmp_path):
    command = os.path.join(os.path.dirname(python), "beamfeed")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    assert "beamfeed run" in run(command, "--help", cwd=tmp_path, env=env)
    assert os.listdir(tmp_path) == []
