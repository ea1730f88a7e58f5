"""A share of the broken files that `python -m tests.torture.hostile` sends through every reader."""

import shutil

import pytest

from .hostile import BATCH, FORMATS, LOADED, NAMES, opened_elsewhere, torture


@pytest.mark.parametrize("name", FORMATS)
def test_broken_files_are_set_aside_or_end_the_job_in_a_line(name):
    tally = torture(name, BATCH, first=10_000_000)
    assert not tally.wrong
    assert tally.set_aside + tally.ended > BATCH / 4  # the changes do break files


@pytest.mark.slow
@pytest.mark.parametrize("name", LOADED)
def test_what_others_wrote_is_loaded_or_refused_in_a_line(name):
    tally = torture(name, BATCH, first=10_000_000)
    assert not tally.wrong
    assert tally.set_aside + tally.ended > BATCH / 4


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("name", ["csv", "npz", "hdf5", "png"])
def test_no_file_outside_of_the_jobs_own_folders_is_written(name):
    assert name in NAMES
    assert not opened_elsewhere(name)
