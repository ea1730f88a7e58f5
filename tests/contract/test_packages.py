"""Packages of the user's own: what may be one, and wheels that pip installs."""

import os
import subprocess
import sys
import time

import pytest

from beamfeed.contract.errors import UserError
from beamfeed.contract.packages import fetched, to_wheel


@pytest.fixture
def kit(tmp_path):
    folder = tmp_path / "own_kit"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("from own_kit.inner.deep import VALUE\n")
    (folder / "inner" / "__init__.py").write_text("")
    (folder / "inner" / "deep.py").write_text("import os\nVALUE = open(os.path.dirname(__file__) + '/v.txt').read()\n")
    (folder / "inner" / "v.txt").write_text("seven")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "old.pyc").write_bytes(b"x")
    (folder / ".secret").write_text("x")
    return folder


def wheel_of(path, folder) -> str:
    with fetched([str(path)]) as (package,):
        return to_wheel(package, str(folder))


def run_with(wheel: str, target, code: str) -> str:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*command, wheel], check=True, capture_output=True)
    env = {**os.environ, "PYTHONPATH": str(target)}
    return subprocess.run(
        [sys.executable, "-c", code], env=env, cwd=target, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_pip_installs_the_wheel_of_a_folder(kit, tmp_path):
    wheel = wheel_of(kit, tmp_path)
    target = tmp_path / "target"
    assert run_with(wheel, target, "import own_kit; print(own_kit.VALUE)") == "seven"
    found = {path.relative_to(target).as_posix() for path in target.rglob("*") if "dist-info" not in str(path)}
    assert not any(".secret" in name or "old.pyc" in name for name in found)


def test_pip_installs_the_wheel_of_a_module(tmp_path):
    (tmp_path / "own_steps.py").write_text("VALUE = 3\n")
    wheel = wheel_of(tmp_path / "own_steps.py", tmp_path)
    assert run_with(wheel, tmp_path / "target", "import own_steps; print(own_steps.VALUE)") == "3"


def test_the_same_files_are_the_same_wheel(kit, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = wheel_of(kit, tmp_path / "a")
    later = time.time() + 1000
    os.utime(kit / "inner" / "deep.py", (later, later))
    second = wheel_of(kit, tmp_path / "b")
    assert os.path.basename(first) == os.path.basename(second)
    with open(first, "rb") as one, open(second, "rb") as other:
        assert one.read() == other.read()
    (kit / "inner" / "v.txt").write_text("eight")
    assert os.path.basename(wheel_of(kit, tmp_path / "b")) != os.path.basename(first)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "none", "does not exist"),
        (lambda folder: folder, "has no __init__.py, so it is no package"),
        (lambda folder: write(folder / "pyproject.toml").parent, "build a wheel of it"),
        (lambda folder: write(folder / "steps.txt"), "must be a folder with an __init__.py, a .py file or a .whl"),
        (lambda folder: write(folder / "my-steps.py"), "'my-steps' cannot be imported by Python, rename it"),
        (lambda folder: write(folder / "kit-1-cp311-cp311-linux_x86_64.whl"), "holds compiled code"),
        (lambda folder: "gs://bucket/kit", "is in a bucket, where only wheels"),
    ],
)
def test_what_is_no_package_is_one_line(tmp_path, make, message):
    with pytest.raises(UserError, match=f"^launch.preprocess.packages: .*{message}"), fetched([str(make(tmp_path))]):
        pass


def write(path):
    path.write_text("")
    return path
