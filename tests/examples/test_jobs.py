"""Every job file that is shipped can be read."""

import glob
import os

import pytest

from beamfeed.contract.config.load import load_job

EXAMPLES = os.path.join(os.path.dirname(__file__), "..", "..", "examples")


@pytest.mark.parametrize("path", sorted(glob.glob(os.path.join(EXAMPLES, "*.yaml"))), ids=os.path.basename)
def test_the_job_file_is_valid(path):
    job = load_job(path)
    assert job.name == os.path.basename(path).removesuffix(".yaml")
    assert job.output.path.startswith("out/")  # nothing is written outside the ignored folder
    assert job.train.workdir.startswith("out/")


def test_there_are_job_files():
    assert glob.glob(os.path.join(EXAMPLES, "*.yaml"))
