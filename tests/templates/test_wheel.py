"""The wheel, as the image and a laptop install it: it must need nothing of the checkout."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile

import pytest

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


def test_the_command_runs_from_an_empty_folder(python, tmp_path):
    command = os.path.join(os.path.dirname(python), "beamfeed")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    assert "beamfeed run" in run(command, "--help", cwd=tmp_path, env=env)
    assert os.listdir(tmp_path) == []
