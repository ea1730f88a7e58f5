"""`make template` and `make template-run`, with a gcloud that only writes down how it was called."""

import os
import re
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
GIVEN = ("PROJECT=a-project", "REGION=europe-west1", "BUCKET=made", "TAG=1.0")
IMAGE = "europe-west1-docker.pkg.dev/a-project/beamfeed/preprocess:1.0"


@pytest.fixture
def make(root, tmp_path):
    (tmp_path / "gcloud").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" "" >> {tmp_path}/calls\n')
    (tmp_path / "gcloud").chmod(0o755)

    def run(*args):
        env = {
            name: value
            for name, value in os.environ.items()
            if name not in ("PROJECT", "REGION", "BUCKET", "JOB", "JOB_NAME")
        }
        env |= {"PATH": f"{tmp_path}:{env['PATH']}"}
        result = subprocess.run(["make", "-s", *args], cwd=root, env=env, capture_output=True, text=True, timeout=60)
        calls = (tmp_path / "calls").read_text().split("\n\n") if (tmp_path / "calls").exists() else []
        return result, [call.split("\n") for call in calls if call and not call.startswith("config")]

    return run


def test_template_builds_image_and_template(make, root):
    result, (image, template) = make("template", *GIVEN)
    assert result.returncode == 0, result.stderr
    assert image[:3] == ["builds", "submit", "."]
    assert f"--substitutions=_IMAGE={IMAGE},_WORKER_IMAGE={IMAGE}-worker" in image
    assert (root / "templates" / "cloudbuild.yaml").exists()
    assert template[:4] == ["dataflow", "flex-template", "build", "gs://made/templates/preprocess.json"]
    assert {f"--image={IMAGE}", "--sdk-language=PYTHON", "--metadata-file=templates/preprocess.json"} <= set(template)


def test_template_run_passes_the_parameters(make):
    result, (call,) = make("template-run", *GIVEN, "JOB=gs://made/jobs/a.yaml", "SET=a.b=[1, 2]; c=3")
    assert result.returncode == 0, result.stderr
    assert call[:3] == ["dataflow", "flex-template", "run"]
    assert re.fullmatch("beamfeed-[0-9a-f]{12}", call[3])
    assert "--parameters=^~^job=gs://made/jobs/a.yaml~set=a.b=[1, 2]; c=3" in call
    assert "--template-file-gcs-location=gs://made/templates/preprocess.json" in call


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("template",), "PROJECT is not set"),
        (("template", "PROJECT=p"), "REGION is not set"),
        (("template", "PROJECT=p", "REGION=r"), "BUCKET is not set"),
        (("template-run", *GIVEN), "JOB is not set"),
        (("template", *GIVEN, "GCLOUD=no-such-gcloud"), "gcloud is not installed"),
    ],
)
def test_what_is_missing_is_one_line(make, args, message):
    result, calls = make(*args)
    assert result.returncode == 2
    assert message in result.stderr.splitlines()[0]
    assert calls == []
