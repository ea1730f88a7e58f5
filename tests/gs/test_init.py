"""A first job file for files in a bucket."""

import yaml
from fleets import make_table


def test_a_job_file_for_a_bucket(gs, fleet):
    for k in range(6):
        fleet.write(f"m{k}.parquet", make_table(100, seed=k))
    url = gs.upload(fleet.files, "lake")
    done = gs.python("-m", "beamfeed.launcher.cli", "init", url, "--out", f"{gs.url('jobs')}/job.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    job = yaml.safe_load(gs.read("jobs/job.yaml"))
    assert job["source"]["files"] == f"{url}/*.parquet"
    assert job["name"] == "lake"
    assert len(job["source"]["features"]) == 3
    done = gs.python("-m", "beamfeed.launcher.cli", "init", url, "--out", f"{gs.url('jobs')}/job.yaml")
    assert done.returncode == 2
    assert done.stderr.endswith("job.yaml: is there already; --force replaces it\n")
    done = gs.python("-m", "beamfeed.launcher.cli", "init", "gs://nowhere/x")
    assert done.returncode == 2
    assert done.stderr == "beamfeed: gs://nowhere/x: there is no bucket 'nowhere'\n"
