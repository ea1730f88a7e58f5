"""One import name: what a user calls `trainer`, `transforms` or `contract` is the user's, and stays out of our way."""

import os
import re
import textwrap
from pathlib import Path

import pytest
from fleets import make_table
from packaging_tools import run

pytestmark = pytest.mark.slow

MODEL = """
import keras

@keras.saving.register_keras_serializable("mine")
class Dense(keras.Model):
    def __init__(self, length, features, **options):
        super().__init__(**options)
        self.sizes = {"length": length, "features": features}
        self.layer = keras.layers.Dense(features)

    def call(self, windows):
        return self.layer(windows)

    def get_config(self):
        return {**super().get_config(), **self.sizes}
"""
USERS = ("contract", "launcher", "pipelines", "trainer", "transforms", "utils", "config")


def write_modules(folder: Path) -> None:
    """A user's modules of our folders' names; `trainer` is a package that holds the user's model."""
    for name in USERS:
        if name == "trainer":
            (folder / name).mkdir(parents=True)
            (folder / name / "__init__.py").write_text("MINE = True\n")
            (folder / name / "model.py").write_text(MODEL)
        else:
            (folder / f"{name}.py").write_text("MINE = True\n")


INSTALLS, PLACES = ("wheel", "editable"), ("beside the job", "on PYTHONPATH", "installed")


@pytest.fixture(params=INSTALLS)
def python(request):
    return request.getfixturevalue(f"{request.param}_python")


@pytest.fixture(params=PLACES)
def place(request, python, tmp_path, clean_env):
    """Puts a user's modules somewhere; returns the folder to start in, and the environment variables."""
    start = tmp_path / "start"
    start.mkdir()
    if request.param == "beside the job":
        write_modules(start)
        yield start, clean_env
    elif request.param == "on PYTHONPATH":
        (tmp_path / "path").mkdir()
        write_modules(tmp_path / "path")
        yield start, {**clean_env, "PYTHONPATH": str(tmp_path / "path")}
    else:
        (site,) = Path(python).parent.parent.glob("lib/python*/site-packages")
        (tmp_path / "modules").mkdir()
        write_modules(tmp_path / "modules")
        link = site / "users_modules.pth"
        link.write_text(f"{tmp_path / 'modules'}\n")
        yield start, clean_env
        link.unlink()


CHECK = """
import importlib, sys
for name in sys.argv[1].split(","):
    assert importlib.import_module(name).MINE, name
for name in sys.argv[2].split(","):
    module = importlib.import_module(name)
    assert name.startswith("beamfeed.") and not hasattr(module, "MINE"), name
for name in sys.argv[1].split(","):
    assert sys.modules[name].MINE, name
"""


SAMPLE = [("wheel", "on PYTHONPATH")]
EVERYWHERE = [
    pytest.param(install, place, marks=() if (install, place) in SAMPLE else pytest.mark.long)
    for install in INSTALLS
    for place in PLACES
]


@pytest.mark.parametrize(("python", "place"), EVERYWHERE, indirect=True)
def test_both_can_be_imported(python, place):
    start, env = place
    ours = "beamfeed.contract.config.load,beamfeed.launcher.cli,beamfeed.pipelines.preprocess,beamfeed.trainer.main"
    run(python, "-c", CHECK, ",".join(USERS), f"{ours},beamfeed.transforms.rejects", cwd=start, env=env)


@pytest.mark.parametrize(("python", "place"), EVERYWHERE, indirect=True)
def test_a_job_runs_with_the_users_own_trainer_package(python, place, new_fleet):
    start, env = place
    fleet = new_fleet("pumps")
    for i in range(4):
        fleet.write(f"m{i}.parquet", make_table(300, seed=i))
    fleet.job["train"] |= {"model": {"class": "trainer.model:Dense"}, "epochs": 1, "feed": {"batch_size": 16}}
    job = start / "job.yaml"
    job.write_text(fleet.write_job().read_text())
    command = os.path.join(os.path.dirname(python), "beamfeed")
    printed = run(command, "run", "job.yaml", cwd=start, env=env)
    assert re.search(r"(?m)^epochs +1$", printed)
    assert (fleet.folder / "model" / "model.keras").is_file()


def test_a_bare_name_is_not_ours(python, tmp_path, clean_env):
    code = textwrap.dedent(
        """
        import importlib.util
        for name in ("contract", "launcher", "pipelines", "trainer", "transforms"):
            assert importlib.util.find_spec(name) is None, name
        """
    )
    run(python, "-c", code, cwd=tmp_path, env=clean_env)
