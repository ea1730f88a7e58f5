"""A dataset that grows, on Flink, Spark and Prism: the bytes of local runs."""

import pyarrow as pa
import pytest
from engines.beam_engines import MASTERS, job_server, prism
from engines.test_after_training import beamfeed

from tests.fleets import Fleet, files_of, make_table

pytestmark = pytest.mark.engines


@pytest.fixture(params=["flink", "spark", "prism"])
def engine(request, tmp_path_factory):
    """The name of an engine, the section of the job for it, and the options of Beam."""
    if request.param == "prism":
        program = str(prism())
        yield "prism", {"binary": program}, ["--runner=PrismRunner", f"--prism_location={program}"]
        return
    with job_server(request.param, tmp_path_factory.mktemp(request.param), MASTERS[request.param]) as address:
        options = ["--runner=PortableRunner", f"--job_endpoint={address}", "--environment_type=LOOPBACK"]
        yield request.param, {"job_server": address}, options


@pytest.mark.parametrize("by", ["path", "column"])
def test_days_that_come_and_change(engine, preprocess, tmp_path, by):
    name, section, options = engine
    fleet = Fleet(tmp_path / "local")
    del fleet.job["train"]
    pattern = {"from": "path", "pattern": "fleet/(?P<asset>[^/]+)/[^/]+$"}
    fleet.job["source"]["asset"] = pattern if by == "path" else {"column": "machine"}
    fleet.job["output"] |= {"grow": True, "shards": 2}
    fleet.job |= {"label": {"column": "x1", "at": "end"}}

    def write(day, seed=0):
        rows = {one: make_table(400, seed=seed + n)[100 * day : 100 * day + 100] for n, one in enumerate("abcdef")}
        if by == "path":
            for one, table in rows.items():
                fleet.write(f"{one}/{day}.parquet", table)
        else:
            named = [table.append_column("machine", pa.array([one] * 100)) for one, table in rows.items()]
            fleet.write(f"{day}.parquet", pa.concat_tables(named))

    def assert_alike():
        assert fleet.preprocess() == 0
        code, said = preprocess.run(fleet.folder / "job.yaml", name, **section)
        assert code == 0, said
        assert files_of(preprocess.output) == files_of(fleet.output)
        return said

    for day in range(3):
        write(day)
        said = assert_alike()
    assert "assets go on" in said
    if by == "path":  # else all are prepared again
        fleet.write("b/0.parquet", make_table(100, seed=9))
        assert "1 asset is prepared again" in assert_alike()
    write(3)
    assert_alike()
    write(3, seed=20)
    assert "the last run is done again" in assert_alike()
    for output, more in ((fleet.output, ()), (preprocess.output, ("--", *options))):
        code, said = beamfeed("compact", fleet.folder / "job.yaml", "--set", f"output.path={output}", *more)
        assert code == 0, said
        assert "shards are" in said
    assert files_of(preprocess.output) == files_of(fleet.output)
