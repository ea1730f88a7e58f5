"""The local runner: what it is, and that it hands every element on whole."""

import os
import subprocess
import sys
import threading
import time

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.testing.util import assert_that, equal_to

from beamfeed.contract.errors import UserError
from beamfeed.pipelines.runner import LOCAL_RUNNER, choose_runner


class SlowToEncode:
    """An element that is written to a worker's output in two parts, with a pause between."""

    def __init__(self, number: int):
        self.number = number

    def __reduce__(self):
        time.sleep(0.4)
        return SlowToEncode, (self.number,)


@pytest.mark.slow
def test_an_element_is_never_cut_in_two():
    options = PipelineOptions([])
    with beam.Pipeline(choose_runner(options, 2), options=options) as pipeline:
        numbers = (
            pipeline
            | beam.Create([6])
            | beam.FlatMap(lambda count: [SlowToEncode(i) for i in range(count)])
            | beam.Reshuffle()
            | beam.Map(lambda element: element.number)
        )
        assert_that(numbers, equal_to(range(6)))


MET = threading.Barrier(2)
meeting: set[int] = set()


def meet(_: int) -> None:
    """Waits for another thread once; ends in an error if none comes."""
    if threading.get_ident() not in meeting:
        meeting.add(threading.get_ident())
        MET.wait(20)


def test_threads_work_at_the_same_time():
    options = PipelineOptions([])
    with beam.Pipeline(choose_runner(options, 2), options=options) as pipeline:
        _ = pipeline | beam.Create(range(16)) | beam.Reshuffle() | beam.Map(meet)


PASSED_ON = """
import os
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from beamfeed.pipelines.runner import choose_runner

def most():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))

options = PipelineOptions([])
pipeline = beam.Pipeline(choose_runner(options, 2), options=options)
megabytes = pipeline | beam.Create(range(64)) | beam.Map(lambda number: (number, os.urandom(1 << 20)))
_ = megabytes | beam.Reshuffle() | beam.Map(lambda element: None)
before = most()
pipeline.run()
print((most() - before) >> 20)
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the system does not tell a process's memory")
def test_what_steps_hand_on_is_not_copied_many_times():
    printed = subprocess.run([sys.executable, "-c", PASSED_ON], capture_output=True, text=True, check=True).stdout
    assert int(printed) < 6.5 * 64, "64 MB go between steps"


@pytest.mark.parametrize(
    ("argv", "workers", "runner", "threads"),
    [
        ([], 2, LOCAL_RUNNER, 2),
        ([], 1, LOCAL_RUNNER, 1),
        (["--direct_num_workers=3"], 1, LOCAL_RUNNER, 3),
        (["--direct_running_mode=multi_threading"], 2, LOCAL_RUNNER, 2),
        (["--direct_running_mode=multi_processing"], 2, LOCAL_RUNNER, None),
        (["--runner=PrismRunner"], 2, "PrismRunner", None),
        (["--runner=DirectRunner"], 2, LOCAL_RUNNER, 2),  # would look for Prism to download
        (["--runner=direct"], 1, LOCAL_RUNNER, 1),
        (["--runner=fnapirunner"], 2, LOCAL_RUNNER, 2),
        (["--runner=flink"], 2, "FlinkRunner", None),
        (["--runner=apache_beam.runners.portability.portable_runner.PortableRunner"], 2, "PortableRunner", None),
    ],
)
def test_which_runner(argv, workers, runner, threads):
    options = PipelineOptions(argv)
    assert choose_runner(options, workers) is None  # Beam makes it
    assert options.view_as(StandardOptions).runner == runner
    direct = options.view_as(DirectOptions)
    if threads is not None:
        assert (direct.direct_num_workers, direct.direct_running_mode) == (threads, "in_memory")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("NoRunner", "--runner: 'NoRunner' is none of DataflowRunner, "),
        ("FlinkRuner", "; did you mean 'FlinkRunner'?"),
        ("my_package.Runner", "--runner: 'my_package.Runner' cannot be loaded: No module named 'my_package'"),
        ("os.NoRunner", "--runner: 'os.NoRunner' cannot be loaded: module 'os' has no attribute 'NoRunner'"),
    ],
)
def test_an_unknown_runner_is_told_in_one_line(name, message):
    with pytest.raises(UserError) as caught:
        choose_runner(PipelineOptions([f"--runner={name}"]), 1)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
