"""What the job file says of Flink, Spark and Prism, what Beam makes of it, and what is refused before a job is sent."""

import socket

import pytest
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions, StandardOptions

from beamfeed.contract.config.load import parse_as
from beamfeed.contract.errors import UserError
from beamfeed.launcher.backends import backends
from beamfeed.launcher.backends.portable.backend import beam_options, check_answers
from beamfeed.launcher.backends.portable.section import FlinkSection, PrismSection, SparkSection
from beamfeed.launcher.job import job_model
from beamfeed.launcher.stage import PREPROCESS

JOB = """
name: fleet
source: {kind: timeseries, files: raw/*.csv, time: {column: t}, features: [x]}
windows: {length: 8}
output: {path: data}
"""
SERVER = {"job_server": "jobserver:8099"}


def job(engine, section):
    overrides = [f"launch.preprocess.backend={engine}", f"launch.preprocess.{engine}={section}"]
    return parse_as(job_model(), JOB, overrides)


@pytest.mark.parametrize(
    ("section", "kind", "config"),
    [
        (FlinkSection(**SERVER), "LOOPBACK", None),
        (SparkSection(**SERVER, worker_pool="localhost:50000"), "EXTERNAL", "localhost:50000"),
        (FlinkSection(**SERVER, image="repo/image:1"), "DOCKER", "repo/image:1"),
    ],
)
def test_who_works_on_a_job_is_an_option_that_beam_knows(section, kind, config):
    portable = PipelineOptions(beam_options(section)).view_as(PortableOptions)
    assert (portable.environment_type, portable.environment_config) == (kind, config)
    assert portable.job_endpoint == "jobserver:8099"
    assert portable.view_as(StandardOptions).runner == "PortableRunner"


def test_options_of_the_engine_are_passed_on():
    section = FlinkSection(**SERVER, parallelism=8, options={"object_reuse": True, "savepoint": False, "x": ["1", "2"]})
    assert beam_options(section)[-4:] == ["--parallelism=8", "--object_reuse", "--x=1", "--x=2"]
    assert beam_options(PrismSection(binary="/opt/prism")) == ["--runner=PrismRunner", "--prism_location=/opt/prism"]


@pytest.mark.parametrize(
    ("engine", "section", "told"),
    [
        ("flink", "{}", "flink.job_server: is missing"),
        ("flink", "{job_server: jobserver}", "it must be a host and a port, such as jobserver:8099"),
        ("spark", "{job_server: 'j:1', worker_pool: 'l:2', image: i}", "worker_pool and image: give one of them"),
        ("spark", "{job_server: 'j:1', parallelism: 2}", "spark.parallelism: unknown key"),
        (
            "flink",
            "{job_server: 'j:1', options: {environment_type: DOCKER}}",
            "environment_type is set by the launcher",
        ),
        ("flink", "{job_server: 'j:1', master: 'm:99999'}", "flink.master: 'm:99999' is not allowed"),
        ("prism", "{}", "prism.binary: is missing"),
    ],
)
def test_a_section_that_cannot_be_is_refused(engine, section, told):
    with pytest.raises(UserError) as caught:
        job(engine, section)
    assert told in str(caught.value)


def test_containers_do_not_see_this_machine():
    with pytest.raises(UserError, match=r"source.files: raw/\*.csv is on this machine, where workers in containers"):
        backends()["flink"].check(job("flink", "{job_server: 'j:1', image: i}"), PREPROCESS)
    with pytest.raises(
        UserError, match=r"source.files: raw/\*.csv is relative to this folder, which workers of a pool"
    ):
        backends()["flink"].check(job("flink", "{job_server: 'j:1', worker_pool: 'l:2'}"), PREPROCESS)
    backends()["flink"].check(job("flink", "{job_server: 'j:1'}"), PREPROCESS)


def test_a_program_that_is_not_there_is_told(tmp_path):
    (tmp_path / "prism").touch()
    for path in (tmp_path / "prism", tmp_path / "none"):  # the first may not be run
        with pytest.raises(UserError, match=f"launch.preprocess.prism.binary: {path} is no program; build it with `go"):
            backends()["prism"].check(job("prism", f"{{binary: {path}}}"), PREPROCESS)


def test_a_job_server_that_does_not_answer_is_told():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        check_answers(address, "key")
    with pytest.raises(UserError, match=f"key: nothing answers at {address} .*; is Beam's job server running there?"):
        check_answers(address, "key")
    with pytest.raises(UserError, match=r"key: nothing answers at no-such-host\.invalid:1 "):
        check_answers("no-such-host.invalid:1", "key")
