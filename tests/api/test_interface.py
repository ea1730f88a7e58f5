"""The public interface: quick to import, typed, and the same stages as the command line."""

import subprocess
import sys
from inspect import isfunction, signature

import pytest

import beamfeed
from beamfeed.launcher.api import _job_file
from beamfeed.launcher.backends.slurm.backend import SlurmBackend
from tests.api.conftest import write_pumps


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_it_loads_nothing_heavy():
    heavy = ("tensorflow", "apache_beam", "keras", "numpy", "pyarrow", "pydantic", "yaml")
    assert python(f"import sys, beamfeed; print([m for m in {heavy!r} if m in sys.modules])") == "[]\n"


def test_jobs_and_manifests_load_neither_tensorflow_nor_beam():
    code = (
        "import sys, beamfeed\n"
        "beamfeed.load_job, beamfeed.run, beamfeed.read_manifest, beamfeed.Windows, beamfeed.UserError\n"
        "print([m for m in ('tensorflow', 'apache_beam', 'keras', 'numpy') if m in sys.modules])"
    )
    assert python(code) == "[]\n"


@pytest.mark.parametrize(
    ("module", "name", "line"),
    [("tensorflow", "load_dataset", "TensorFlow"), ("apache_beam", "PredictStream", "Apache Beam")],
)
def test_a_package_that_is_not_installed_is_told(module, name, line):
    code = f"""
import sys, beamfeed
sys.modules[{module!r}] = None  # as where it is not installed
try:
    beamfeed.{name}
except beamfeed.UserError as error:
    print(error)
"""
    assert python(code) == f"{line} is not installed; pip install 'beamfeed[all]' installs what is missing\n"


def test_every_name_is_there_and_no_other():
    assert sorted(beamfeed._HOMES) == sorted(set(beamfeed.__all__) - {"__version__"})
    assert set(beamfeed.__all__) <= set(dir(beamfeed))
    for name in beamfeed.__all__:
        assert getattr(beamfeed, name) is not None
    assert beamfeed.__version__ == "0.1.0"
    with pytest.raises(AttributeError, match="module 'beamfeed' has no attribute 'load_jobs'"):
        beamfeed.load_jobs  # noqa: B018


def test_no_function_has_more_than_ten_parameters():
    for name in set(beamfeed.__all__) - {"__version__"}:
        call = getattr(beamfeed, name)
        if isfunction(call):
            assert len(signature(call).parameters) <= 10, name


def test_what_is_typed_is_what_is_loaded(root):
    """The names under TYPE_CHECKING come from the modules that are asked at run time."""
    import ast

    tree = ast.parse((root / "beamfeed" / "__init__.py").read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    typed = {
        alias.name: node.module.removeprefix("beamfeed.")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == beamfeed._HOMES


def test_a_job_from_memory_is_the_job_of_its_file(pumps):
    job = beamfeed.load_job("job.yaml", ["split={by: time}", "train.model={class: 'mine:Model'}"])
    changed = job.model_copy(update={"windows": beamfeed.Windows(length=4)})
    with _job_file(changed) as path:
        assert beamfeed.load_job(path) == changed
        assert path.endswith("/pumps.yaml")
    with _job_file("job.yaml") as path:
        assert path == "job.yaml"


def test_mistakes_are_errors_of_one_line(pumps):
    with pytest.raises(beamfeed.UserError, match=r"did you mean 'stride'") as caught:
        beamfeed.run("job.yaml", ["windows.strid=2"])
    assert "\n" not in str(caught.value)
    with pytest.raises(beamfeed.UserError, match="there is no dataset"):
        beamfeed.read_manifest("nowhere")
    with pytest.raises(beamfeed.UserError, match="there is no dataset"):
        beamfeed.load_dataset("nowhere", "train", batch_size=2)
    with pytest.raises(beamfeed.UserError, match=r"run beamfeed.preprocess\(job\) first"):
        beamfeed.train("job.yaml", ["output.path=nothing/here"])


def test_a_job_from_memory_is_told_of_by_its_name(pumps):
    job = beamfeed.load_job("job.yaml", ["output.path=nothing/here"])
    with pytest.raises(beamfeed.UserError) as caught:
        beamfeed.train(job)
    assert str(caught.value) == "output.path: no dataset in nothing/here; run beamfeed.preprocess(job) first"
    with pytest.raises(beamfeed.UserError) as caught:
        beamfeed.run(job.model_copy(update={"train": None}))
    assert str(caught.value) == "pumps: train: is missing; beamfeed.preprocess(job) needs none"


def test_the_sections_of_backends_are_checked(pumps):
    for override, told in [
        ("launch.preprocess.backend=nonsense", "'nonsense' is not allowed"),
        ("launch.preprocess.datflow={}", "did you mean 'dataflow'"),
        ("launch.train.restart=3", "did you mean 'restarts'"),
    ]:
        with pytest.raises(beamfeed.UserError, match=told):
            beamfeed.load_job("job.yaml", [override])


def test_paths_may_be_objects(pumps):
    assert beamfeed.load_job(pumps / "job.yaml").name == "pumps"
    for call in (
        lambda: beamfeed.read_manifest(pumps / "nowhere"),
        lambda: beamfeed.load_dataset(pumps / "nowhere", "train", batch_size=2),
    ):
        with pytest.raises(beamfeed.UserError, match="there is no dataset"):
            call()
    with pytest.raises(beamfeed.UserError, match="did you mean"):
        beamfeed.run(pumps / "job.yaml", ["nam=x"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "trian"}, "split is 'trian', it must be one of train, eval, test"),
        ({"remainder": "keep"}, "remainder is 'keep', it must be one of drop, pad"),
        ({"batch_size": 0}, "batch_size is 0, it must be at least 1"),
        ({"shuffle": -1}, "shuffle is -1"),
        ({"epochs": 0}, "epochs is 0"),
    ],
)
def test_wrong_arguments_of_load_dataset_are_told(arguments, message):
    with pytest.raises(ValueError, match=message):
        beamfeed.load_dataset("nowhere", **{"split": "train", "batch_size": 2, **arguments})


def test_wrong_objects_are_told():
    with pytest.raises(ValueError, match="worker is 2, it must be from 0 to 1"):
        beamfeed.Distribution(worker=2, workers=2)
    with pytest.raises(ValueError, match="lanes is 0, it must be at least 1"):
        beamfeed.FeedOptions(lanes=0)
    with pytest.raises(ValueError, match="cache is 'disk', it must be one of none, memory, file"):
        beamfeed.Tuning(cache="disk")


@pytest.mark.slow
def test_a_stage_that_fails_raises(pumps, capfd):
    with pytest.raises(beamfeed.UserError, match="job pumps ended with exit code 2"):
        beamfeed.preprocess("job.yaml", ["source.features=[nothing]", "output.path=out/none"])
    assert "no column matches 'nothing'" in capfd.readouterr().err
    with pytest.raises(beamfeed.JobFailed, match="job pumps ended with exit code 1"):
        beamfeed.preprocess("job.yaml", ["windows.length=100000", "output.path=out/none"])


def test_a_job_from_memory_is_not_handed_to_what_reads_its_file_later(tmp_path, monkeypatch):
    write_pumps(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SlurmBackend, "check", lambda *_: None)  # there is a Slurm
    job = beamfeed.load_job("job.yaml", ["launch.preprocess.backend=slurm"])
    with pytest.raises(beamfeed.UserError, match="job pumps: slurm reads a job from its file"):
        beamfeed.preprocess(job)
