"""Flink, Spark and Prism give the files of a local run."""

import pytest
from engines.beam_engines import flink_cluster, free_port, job_server, prism
from engines.machines import machines
from fleets import files_of

pytestmark = pytest.mark.engines

KINDS = ["series", "table", "image"]


@pytest.fixture(scope="module", params=["flink", "spark"])
def embedded(request, tmp_path_factory):
    """An engine inside of its job server: its name and the server's address."""
    master = {"flink": "[local]", "spark": "local[2]"}[request.param]
    with job_server(request.param, tmp_path_factory.mktemp(request.param), master) as address:
        yield request.param, address


@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_inside_of_its_job_server(embedded, prepared, preprocess, kind):
    (engine, address), job = embedded, prepared(kind)
    code, said = preprocess.run(job.job, engine, job_server=address)
    assert code == 0, said
    assert files_of(preprocess.output) == job.files


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


@pytest.mark.parametrize("kind", KINDS)
def test_a_cluster_of_flink_on_two_machines(cluster, prepared, preprocess, kind):
    (_, section), job = cluster, prepared(kind)
    code, said = preprocess.run(job.job, "flink", **section)
    assert code == 0, said
    assert files_of(preprocess.output) == job.files
