"""The template's metadata against the pipeline's options, and its image against the project."""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions, WorkerOptions

from beamfeed.pipelines.options import JobOptions


@pytest.fixture
def metadata(root):
    return json.loads((root / "templates" / "preprocess.json").read_text())


@pytest.fixture
def parameters(metadata):
    return {parameter["name"]: parameter for parameter in metadata["parameters"]}


@pytest.fixture
def dockerfile(root):
    text = (root / "templates" / "Dockerfile").read_text()
    return re.sub(r"^\s*#.*\n", "", text, flags=re.M).replace("\\\n", " ")


def options_of(cls):
    parser = argparse.ArgumentParser(add_help=False)
    cls._add_argparse_args(parser)
    return {
        action.option_strings[0].removeprefix("--") for action in parser._actions if action.help != argparse.SUPPRESS
    }


def test_every_option_of_the_pipeline_is_a_parameter_and_no_other(parameters):
    assert set(parameters) == options_of(JobOptions) | {"sdk_container_image"}
    assert "sdk_container_image" in options_of(WorkerOptions)


def test_only_the_job_file_is_needed(parameters):
    assert [name for name, parameter in parameters.items() if not parameter["isOptional"]] == ["job"]


def test_every_parameter_has_help_and_a_pattern(metadata):
    assert metadata["name"]
    assert metadata["description"]
    for parameter in metadata["parameters"]:
        assert set(parameter) == {"name", "label", "helpText", "isOptional", "regexes", "paramType"}
        assert parameter["paramType"] in ("TEXT", "GCS_READ_FILE")
        assert len(parameter["helpText"]) > len(parameter["label"]) > 0


@pytest.mark.parametrize(
    ("name", "value", "fits"),
    [
        ("job", "gs://bucket/jobs/fleet.yaml", True),
        ("job", "jobs/fleet.yaml", False),
        ("job", "gs://bucket", False),
        ("set", "windows.stride=4", True),
        ("set", "windows.stride=4; output.path=gs://bucket/other", True),
        ("set", "source.features=[a, b];", True),
        ("set", "windows.stride", False),
        ("set", "windows.stride=4;;", False),
        ("sdk_container_image", "europe-docker.pkg.dev/a-project/beamfeed/preprocess:1.0", True),
        ("sdk_container_image", "two words", False),
    ],
)
def test_the_patterns(parameters, name, value, fits):
    assert all(bool(re.fullmatch(pattern, value)) is fits for pattern in parameters[name]["regexes"])


def test_the_parameters_are_parsed_by_the_pipeline(parameters):
    values = {name: "true" if name in ("replace", "refit") else "gs://b/x" for name in parameters}
    options = PipelineOptions([f"--{name}={value}" for name, value in values.items()])
    assert options.get_all_options(drop_default=True) == {
        "job": "gs://b/x",
        "set": ["gs://b/x"],
        "replace": "true",
        "refit": "true",
        "sdk_container_image": "gs://b/x",
    }


def test_the_image_has_the_versions_of_the_lock(root, dockerfile):
    (version,) = re.findall(r"ARG BEAM_VERSION=(\S+)", dockerfile)
    lock = (root / "requirements-worker.lock").read_text()
    assert re.search(rf"^apache-beam(\[gcp\])?=={version} ", lock, flags=re.M)
    worker, launcher = dockerfile.split("AS worker\n")[1].split("FROM worker\n")
    for lock, stage in (("requirements-worker", worker), ("requirements", launcher)):
        assert f"COPY {lock}.lock /tmp/\n" in stage
        assert f"--no-deps --require-hashes --requirement /tmp/{lock}.lock" in stage


def test_the_image_serves_launcher_and_workers(root, dockerfile):
    assert "COPY --from=beam /opt/apache/beam /opt/apache/beam" in dockerfile
    launcher = "/opt/google/dataflow/python_template_launcher"
    assert f"COPY --from=launcher {launcher} {launcher}" in dockerfile
    assert dockerfile.count("ENTRYPOINT") == 1  # the worker's, which the other image has from it
    assert 'ENTRYPOINT ["/opt/apache/beam/boot"]' in dockerfile
    assert "FLEX_TEMPLATE_PYTHON_PY_FILE=/template/dataflow_template.py" in dockerfile
    assert "REQUIREMENTS_FILE" not in dockerfile  # it would be downloaded at every start


def test_the_trainer_finds_the_driver_of_a_node(dockerfile):
    trainer = dockerfile.split("AS trainer\n")[1].split("\nFROM ")[0]
    assert "ENV LD_LIBRARY_PATH=/usr/local/nvidia/lib64:/usr/local/nvidia/lib " in trainer


def test_what_the_image_is_made_of_is_there(root, dockerfile):
    allowed = (root / "templates" / "Dockerfile.dockerignore").read_text().splitlines()
    for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile, flags=re.M):
        for source in sources.split():
            assert (root / source).exists()
            assert f"!{source.split('/')[0]}" in allowed


def test_the_image_has_every_package_of_the_wheel(root, dockerfile):
    folders = re.search(r"FOLDERS = \((.*?)\)", (root / "setup.py").read_text())[1]
    names = re.findall(r'"(\w+)"', folders)
    assert len(names) == 5
    for name in ["beamfeed", *names]:
        assert f"COPY {name} {name}" in dockerfile


def test_the_dockerfile_passes_its_linter(root):
    linter = Path(sys.executable).parent / "hadolint"
    result = subprocess.run([linter, str(root / "templates" / "Dockerfile")], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
