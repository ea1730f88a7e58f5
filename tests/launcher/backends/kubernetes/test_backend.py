"""What is told before a cluster is asked, and what would be sent to it."""

import os
import subprocess
import sys

import pytest
import yaml
from fleets import Fleet, make_table

from beamfeed.contract.errors import UserError
from beamfeed.launcher.backends.kubernetes.kubectl import Kubectl
from beamfeed.launcher.estimate import PRICES
from beamfeed.launcher.job import load_job
from beamfeed.launcher.plan import make_plan
from beamfeed.launcher.run import describe_plan, plan_values


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A job of both stages on Kubernetes, and a program that would be kubectl."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin" / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("WHERE", f"{tmp_path}/a$b")
    fleet = Fleet(tmp_path)
    fleet.write("a.parquet", make_table(100))
    section = {"image": "beamfeed:1", "cpus": 2.5, "volumes": [{"path": str(tmp_path), "claim": "fleet"}]}
    for stage in ("preprocess", "train"):
        fleet.job["launch"][stage] = {"backend": "kubernetes", "kubernetes": section}
    fleet.job["train"]["workdir"] = "${WHERE}"
    return str(fleet.write_job())


def test_a_dry_run_prints_what_would_be_made(job):
    text = describe_plan(make_plan(job, ["windows.stride=5"]), PRICES)
    assert text.count("kubectl create -f - <<'END'") == 2
    (first, *_), _ = [list(yaml.safe_load_all(part.split("END")[0])) for part in text.split("<<'END'\n")[1:]]
    pod = first["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert pod["spec"]["containers"][0]["command"][-2:] == ["--job", "/etc/beamfeed/job.yaml"]
    sent = yaml.safe_load(pod["metadata"]["annotations"]["beamfeed/job"])
    assert sent["train"]["workdir"].endswith("/a$$b")  # filled in, and read again as it is
    assert sent["windows"]["stride"] == 5
    assert sent["launch"] == {"preprocess": {"packages": [], "workers": 3}}  # not the cores of a node


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("train.workdir=out", "train.workdir: out is in no volume of launch.train.kubernetes.volumes"),
        ("output.path=/elsewhere", "output.path: /elsewhere is in no volume of launch.preprocess.kubernetes.volumes"),
        ("launch.preprocess.packages=[own]", "launch.preprocess.packages: own is in no volume of"),
    ],
)
def test_what_pods_would_not_see(job, override, told):
    with pytest.raises(UserError, match=told):
        make_plan(job, [override])


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ("{gpus: 1}", "image"),
        ("{image: x, memory: 3 GB}", "an amount of memory, such as 16Gi"),
        ("{image: x, memory: 500K}", "an amount of memory"),
        ("{image: x, namespace: team.a}", "at most 63 small letters, digits and -, such as team-a"),
        ("{image: x, volumes: [{path: /a}]}", "nothing beside path: give one of claim, secret and source"),
        ("{image: x, volumes: [{path: /a, claim: b}, {path: /a/, claim: c}]}", "/a is mounted twice"),
        ("{image: x, volumes: [{path: /etc//beamfeed/, claim: b}]}", "volumes: /etc/beamfeed holds the job file"),
        ("{image: x, env: {TF_CONFIG: y}}", "env: TF_CONFIG is set by the launcher"),
    ],
)
def test_a_section_with_a_mistake(job, section, told):
    with pytest.raises(UserError, match=told):
        load_job(job, [f"launch.train.kubernetes={section}"])


def test_a_cluster_that_does_not_answer(job):
    command = [sys.executable, "-m", "beamfeed.launcher.cli", "cancel", job]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "beamfeed: the cluster does not answer: kubectl ended with exit code 1\n"


def test_a_machine_without_kubectl(job, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match="kubectl is not on this machine's PATH; install it, and log in to the cluster"):
        make_plan(job)


def test_a_dry_run_tells_no_secret(job, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefghijk")
    plan = make_plan(job, ["launch.train.kubernetes.env={HF_TOKEN: '${HF_TOKEN}'}"])
    for shown in (describe_plan(plan, PRICES), str(plan_values(plan, PRICES))):
        assert "hf_abcdefghijk" not in shown
        assert "${HF_TOKEN}" in shown


def test_an_api_that_is_down_is_in_nobodys_way(tmp_path, monkeypatch):
    """kubectl lists the others, and then fails."""
    program = tmp_path / "kubectl"
    program.write_text(
        "#!/bin/sh\necho jobs.batch\necho pods\n"
        "echo 'error: unable to retrieve the complete list of server APIs: metrics.k8s.io/v1beta1' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert Kubectl(None, None, "train").known(["jobs.batch", "jobsets.jobset.x-k8s.io"]) == ["jobs.batch"]
