"""What the job file says of DataflowSection, and what Beam makes of it."""

import re

import pytest
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions, WorkerOptions

from beamfeed.contract.config.load import parse_as
from beamfeed.contract.errors import UserError
from beamfeed.launcher.backends.dataflow.backend import beam_options
from beamfeed.launcher.backends.dataflow.section import DataflowSection
from beamfeed.launcher.backends.remote import check_paths, job_name, option
from beamfeed.launcher.job import job_model

JOB = """
name: '{name}'
source: {{kind: timeseries, files: {files}, time: {{column: t}}, features: [x]}}
windows: {{length: 8}}
output: {{path: {output}}}
train: {{model: {{name: recurrent_autoencoder}}, workdir: model}}
"""
SECTION = {
    "project": "a-project",
    "region": "europe-west1",
    "temp_location": "gs://made/tmp",
    "image": "repo/image:1",
}
SET = "launch.preprocess.dataflow"
NEEDED = "launch.preprocess.dataflow={project: a-project, region: europe-west1, temp_location: gs://m1x/t, image: i}"


def job(name="fleet", files="gs://raw/*.csv", output="gs://made/data", overrides=()):
    return parse_as(job_model(), JOB.format(name=name, files=files, output=output), overrides)


def test_every_key_is_an_option_that_beam_knows():
    section = DataflowSection(
        **SECTION,
        staging_location="gs://made/stage",
        machine_type="n2-highmem-4",
        disk_gb=50,
        min_ram_gb=7.5,
        workers=2,
        max_workers=20,
        service_account="robot@a-project.iam.gserviceaccount.com",
        network="net",
        subnetwork="regions/europe-west1/subnetworks/sub",
        public_ips=False,
        labels={"team": "x", "cost": "y"},
        options={
            "experiments": ["a", "b"],
            "enable_hot_key_logging": True,
            "no_auth": False,
            "flexrs_goal": "COST_OPTIMIZED",
        },
    )
    given = PipelineOptions(beam_options(section, "a-name", own_code=True)).get_all_options(
        drop_default=True, retain_unknown_options=True
    )
    assert given == {
        "runner": "DataflowRunner",
        "project": "a-project",
        "region": "europe-west1",
        "job_name": "a-name",
        "temp_location": "gs://made/tmp",
        "staging_location": "gs://made/stage",
        "sdk_container_image": "repo/image:1",
        "machine_type": "n2-highmem-4",
        "disk_size_gb": 50,
        "resource_hints": ["min_ram=7.5GB"],
        "num_workers": 2,
        "max_num_workers": 20,
        "service_account_email": "robot@a-project.iam.gserviceaccount.com",
        "network": "net",
        "subnetwork": "regions/europe-west1/subnetworks/sub",
        "use_public_ips": False,
        "labels": ["team=x", "cost=y"],
        "experiments": ["a", "b"],
        "enable_hot_key_logging": True,
        "flexrs_goal": "COST_OPTIMIZED",
    }


@pytest.mark.parametrize(
    ("own_code", "worker_image", "image"),
    [(False, "repo/worker:1", "repo/worker:1"), (True, "repo/worker:1", "repo/image:1"), (False, None, "repo/image:1")],
)
def test_code_of_the_users_own_runs_where_tensorflow_is(own_code, worker_image, image):
    section = DataflowSection(**SECTION, worker_image=worker_image)
    flags = beam_options(section, "a-name", own_code=own_code)
    assert PipelineOptions(flags).view_as(WorkerOptions).sdk_container_image == image


def test_what_is_left_out_is_left_to_the_service():
    options = PipelineOptions(beam_options(DataflowSection(**SECTION), "a-name", own_code=False))
    assert options.view_as(WorkerOptions).machine_type is None
    assert options.view_as(WorkerOptions).use_public_ips is None
    assert options.view_as(GoogleCloudOptions).labels is None


@pytest.mark.parametrize(
    "output", ["gs://made/data", "gs://my.bucket_2/Fleet/", "gs://9/\u00e9", "gs://b/" + "a-" * 90]
)
def test_the_name_is_one_that_dataflow_allows(output):
    assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", job_name(output))


def test_the_name_tells_outputs_apart():
    assert re.fullmatch("beamfeed-made-fleet-data-[0-9a-f]{12}", job_name("gs://made/fleet/data"))
    assert job_name("gs://made/fleet/data/") == job_name("gs://made/fleet/data")
    assert job_name("gs://made/fleet-data") != job_name("gs://made/fleet/data")


@pytest.mark.parametrize(("key", "value"), [("files", "raw/*.csv"), ("output", "/data/out")])
def test_a_local_path_is_told_with_its_key(key, value):
    with pytest.raises(
        UserError, match=rf"(source\.files|output\.path): {re.escape(value)} is on this machine"
    ) as told:
        check_paths(job(**{key: value}), "Dataflow's workers")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["launch.preprocess.backend=dataflow"], "launch.preprocess: backend: dataflow needs a section 'dataflow'"),
        (["launch.preprocess.backend=nomad"], "'nomad' is not allowed"),
        ([SET + "={region: europe-west1, temp_location: gs://m1x/t, image: i}"], "dataflow.project: is missing"),
        ([SET + "={project: a-project, temp_location: gs://m1x/t, image: i}"], "dataflow.region: is missing"),
        ([NEEDED, "launch.preprocess.dataflow.project=12"], "dataflow.project"),
        ([NEEDED, "launch.preprocess.dataflow.temp_location=/tmp"], "dataflow.temp_location"),
        ([NEEDED, "launch.preprocess.dataflow.machine=n2"], "unknown key; did you mean 'machine_type'?"),
        ([NEEDED, "launch.preprocess.dataflow.labels={Team: x}"], "dataflow.labels"),
        ([NEEDED, "launch.preprocess.dataflow.labels={team: A b}"], "it must be at most 63 small letters"),
        ([NEEDED, SET + ".workers=9", SET + ".max_workers=3"], "more than max_workers: 3"),
        ([NEEDED, "launch.preprocess.dataflow.options={runner: X}"], "runner is set by the launcher"),
    ],
)  # fmt: skip
def test_a_wrong_section_is_told_in_one_line(overrides, message):
    with pytest.raises(UserError) as error:
        job(overrides=overrides)
    assert message in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_the_last_of_several_options_counts():
    flags = ["--region=a", "--region", "b", "--regions=c"]
    assert option(flags, "region") == "b"
    assert option(flags, "project") is None
