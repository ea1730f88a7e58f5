"""Beamfeed built and installed, as a wheel and editable, in environments of their own."""

import os
import sys
from types import SimpleNamespace

import pytest
from packaging_tools import copy_source, new_environment, run


@pytest.fixture(scope="session")
def built(root, tmp_path_factory):
    """The wheel and the sdist."""
    folder = tmp_path_factory.mktemp("built")
    source = copy_source(root, folder / "source")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(source))
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return SimpleNamespace(wheel=wheel, sdist=sdist)


@pytest.fixture(scope="session")
def wheel_python(built, tmp_path_factory):
    return new_environment(tmp_path_factory.mktemp("wheel"), str(built.wheel))


@pytest.fixture(scope="session")
def editable_python(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("editable")
    source = copy_source(root, folder / "source")
    return new_environment(folder / "environment", "--editable", str(source))


@pytest.fixture
def clean_env():
    """The environment variables without those that name folders of Python modules."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"TF_CPP_MIN_LOG_LEVEL": "2"}
