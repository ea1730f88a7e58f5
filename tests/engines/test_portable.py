"""Flink, Spark and Prism give the files of a local run."""

import time

import pytest
import yaml
from engines.beam_engines import MASTERS, flink_cluster, free_port, job_server, prism
from engines.machines import kill, machines

from tests.fleets import files_of

KINDS = ["series", "table", "image"]


@pytest.fixture(scope="module", params=MASTERS)
def embedded(request, tmp_path_factory):
    """An engine inside of its job server: its name and the server's address."""
    with job_server(request.param, tmp_path_factory.mktemp(request.param), MASTERS[request.param]) as address:
        yield request.param, address


@pytest.mark.engines
@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_inside_of_its_job_server(embedded, prepared, preprocess, kind):
    (engine, address), job = embedded, prepared(kind)
    code, said = preprocess.run(job.job, engine, job_server=address)
    assert code == 0, said
    assert files_of(preprocess.output) == job.files


@pytest.mark.slow  # the one that .ci/run has
def test_flink_on_a_bucket(cloud, prepared, preprocess, tmp_path):
    job = prepared("series")
    described = yaml.safe_load(job.job.read_text())
    described["source"]["files"] = cloud.upload(job.job.parent / "fleet", "fleet")
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(described))
    with job_server("flink", tmp_path, MASTERS["flink"]) as address:
        preprocess.output, preprocess.env = cloud.url("data"), cloud.env
        code, said = preprocess.run(tmp_path / "job.yaml", "flink", job_server=address)
    assert code == 0, said
    assert not cloud.proxy.refused
    # The fingerprint knows the files by their paths, so it names another folder.
    assert shards({name: cloud.read(f"data/{name}") for name in cloud.list("data")}) == shards(job.files)


def shards(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name.partition("/")[2]: data for name, data in files.items() if name.endswith(".tfrecord")}


@pytest.mark.engines
@pytest.mark.parametrize("kind", KINDS)
def test_prism(prepared, preprocess, kind):
    job = prepared(kind)
    code, said = preprocess.run(job.job, "prism", binary=str(prism()))
    assert code == 0, said
    assert files_of(preprocess.output) == job.files


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Flink on two machines, with a worker pool on each: the cluster and the section of the job."""
    folder, pool = tmp_path_factory.mktemp("cluster"), free_port()
    with (
        machines(2) as nodes,
        flink_cluster(folder, nodes[0].gateway, nodes, pool) as flink,
        job_server("flink", folder, flink.address) as address,
    ):
        yield flink, {"job_server": address, "worker_pool": f"localhost:{pool}", "parallelism": 2}


@pytest.mark.engines
@pytest.mark.parametrize("kind", KINDS)
def test_a_cluster_of_flink_on_two_machines(cluster, prepared, preprocess, kind):
    (_, section), job = cluster, prepared(kind)
    code, said = preprocess.run(job.job, "flink", **section)
    assert code == 0, said
    assert files_of(preprocess.output) == job.files


@pytest.mark.engines
@pytest.mark.parametrize("reached", ["data-*", "data-*/**/*.tfrecord*"])
def test_a_task_manager_that_dies_in_the_middle_is_replaced(cluster, prepared, preprocess, reached):
    (flink, section), job = cluster, prepared("long series")
    process = preprocess.start(job.job, "flink", **section)
    while not any(preprocess.output.glob(reached)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    kill(flink.task_managers[1])
    flink.task_managers[1] = flink.start_task_manager(1)
    out, error = process.communicate(timeout=400)
    assert process.returncode == 0, out + error
    assert files_of(preprocess.output) == job.files
