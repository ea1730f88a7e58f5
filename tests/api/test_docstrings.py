"""The examples in the docstrings of the public names, run one after the other in one folder."""

import doctest
from importlib.util import find_spec

import pytest

import beamfeed

# Each may use what those before it have written.
ORDER = [
    "load_job",
    "preprocess",
    "read_manifest",
    "load_dataset",
    *(["torch_dataset"] if find_spec("torch") else []),
    "train",
    "run",
    "ReadTimeseries",
    "EncodeWindows",
    "load_arrays",
]


@pytest.mark.slow
def test_the_examples_run(pumps):
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    finder = doctest.DocTestFinder(recurse=False)
    for name in ORDER:
        (found,) = finder.find(getattr(beamfeed, name), name, globs={"beamfeed": beamfeed})
        assert found.examples, f"{name} has no example"
        printed: list[str] = []
        runner.run(found, out=printed.append)
        assert not runner.failures, "".join(printed)


def test_the_examples_of_pure_functions_run():
    from beamfeed.contract.dataset import windows

    assert doctest.testmod(windows) == doctest.TestResults(failed=0, attempted=4)


def test_every_public_name_says_what_it_is():
    for name in set(beamfeed.__all__) - {"__version__"}:
        assert (getattr(beamfeed, name).__doc__ or "").strip(), name
