"""What the job file says of Slurm, as a script; that it runs is shown by tests/engines/test_slurm.py."""

import subprocess

import pytest

from beamfeed.contract.errors import UserError
from beamfeed.launcher.backends import backends
from beamfeed.launcher.backends.slurm import script as slurm_script
from beamfeed.launcher.backends.slurm.script import script
from beamfeed.launcher.backends.slurm.section import SlurmSection
from beamfeed.launcher.job import load_job
from beamfeed.launcher.stage import TRAIN
from beamfeed.trainer.cluster import watchdog


def lines(section, restarts=3, command=("python", "-m", "x", "--set", "a=[b c]")):
    text = script(SlurmSection(**section), command, "fleet", 4, "/logs/slurm-%j.log", restarts, "made")
    assert subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True).stderr == ""
    return text.splitlines()


def test_every_key_is_an_option_of_sbatch():
    section = {
        "partition": "gpu", "account": "lab", "qos": "high", "time": "1-12:00:00", "gpus": 4, "cpus": 16,
        "memory": "64G", "setup": ["module load cuda/12.4"], "options": {"constraint": "a100&nvlink", "exclusive": True,
                                                                         "hold": False},
    }  # fmt: skip
    found = lines(section)
    asked = [line.removeprefix("#SBATCH --") for line in found if line.startswith("#SBATCH")]
    assert asked == [
        "job-name=fleet", "comment=made", "nodes=4", "ntasks-per-node=1", "output=/logs/slurm-%j.log",
        "open-mode=append", "requeue", "signal=TERM@300", "partition=gpu", "account=lab", "qos=high",
        "time=1-12:00:00", "gpus-per-node=4", "cpus-per-task=16", "mem=64G", "constraint='a100&nvlink'", "exclusive",
    ]  # fmt: skip
    at = found.index("module load cuda/12.4")
    assert found[at + 1] == "export BEAMFEED_GPUS=4"
    (step,) = [line for line in found[at:] if line.startswith("srun")]
    assert step.startswith("srun --kill-on-bad-exit=0 --wait=300 --cpus-per-task=16 bash -c ")
    assert step.endswith(" bash python -m x --set 'a=[b c]' &")


@pytest.fixture
def run(tmp_path):
    """Runs the script of a stage, and returns its exit code; -9 where it was put into the queue again, which kills it.

    Programs of this test stand for Slurm's.
    """
    (tmp_path / "bin").mkdir()

    def program(name, body):
        path = tmp_path / "bin" / name
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)

    def start(task, restarts=3, ends=None, **section):
        program("scontrol", '[ "$*" = "requeue 7" ]')
        program("sleep", '[ $1 = 60 ] && kill -KILL $PPID; exec /bin/sleep "$1"')
        program("squeue", "echo 1.0")
        program("srun", f'shift 2; "$@"; code=$?; exit {ends or "$code"}')
        text = script(SlurmSection(**section), ("bash", "-c", task), "fleet", 1, f"{tmp_path}/log", restarts, "made")
        env = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "SLURM_JOB_ID": "7"}
        # What looks after srun may outlive the script for seconds; in a job, Slurm ends it.
        unread = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.run(["bash"], input=text, text=True, env=env, timeout=60, **unread).returncode

    return start


AGAIN = -9


def test_a_stage_that_ended_well_or_failed_is_not_put_into_the_queue_again(run):
    assert run("exit 0") == 0
    assert run("exit 1") == 1
    assert run("exit 2", ends=138) == 2  # the others missed the one that failed


@pytest.mark.parametrize("setup", [[], ["set -e", "set -u"]])
def test_what_was_ended_goes_on_so_often(run, setup):
    for _ in range(3):
        assert run("exit 143", setup=setup) == AGAIN
    assert run("exit 143", setup=setup) == 143
    assert run("exit 138", setup=setup) == AGAIN  # it was given up, and is counted anew
    assert run("kill -KILL $$", restarts=None) == 137


def test_a_worker_that_is_told_to_stop_saves_and_its_code_is_that_of_the_task(run):
    task = 'trap "sleep 1; exit 143" TERM; kill -TERM $PPID $$; wait'  # as Slurm does, to all of the task
    assert run(task) == AGAIN


def test_it_is_told_to_save_before_its_end():
    for time, signal in [("10", "200"), ("5:30", "110"), ("12:00:00", "300"), ("1-0", "300"), (None, "300")]:
        assert f"#SBATCH --signal=TERM@{signal}" in lines({"time": time} if time else {})
    assert not any("#SBATCH --signal" in line for line in lines({"time": "10"}, restarts=None))


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ("{time: soon}", "'soon' is not allowed, it must be a time, such as 12:00:00"),
        ("{memory: 64 GB}", "'64 GB' is not allowed, it must be a size, such as 64G"),
        ("{partition: 'a b'}", "it must be a name without a space"),
        ("{gpus: 0}", "slurm.gpus: 0 is not allowed"),
        ("{options: {--mem: 3}}", "it must be the long name of an option of sbatch"),
        ("{nodes: 3}", "slurm.nodes: unknown key"),
        ("{options: {job-name: mine}}", "options: job-name is set by the launcher"),
        ("{options: {wait: true}}", "options: wait is set by the launcher"),
    ],
)
def test_a_section_that_cannot_be_is_refused(fleet, section, told):
    with pytest.raises(UserError) as caught:
        load_job(str(fleet.write_job()), ["launch.train.backend=slurm", f"launch.train.slurm={section}"])
    assert told in str(caught.value)


def test_without_slurm_it_is_told_what_is_missing(fleet, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    job = load_job(str(fleet.write_job()), ["launch.train.backend=slurm"])
    with pytest.raises(UserError, match="backend: slurm: sbatch is not on this machine's PATH"):
        backends()["slurm"].check(job, TRAIN)


def test_the_exit_code_of_who_missed_another_is_that_of_the_trainer():
    assert watchdog.LOST == slurm_script.LOST
    assert f"[ $code = {watchdog.LOST} ]" in slurm_script.TASK


@pytest.mark.parametrize(("after", "told"), [("afterok:7", "afterok:7,singleton"), (None, "singleton")])
def test_a_jobs_own_dependency_is_one_more(after, told):
    section = SlurmSection(options={"dependency": "singleton"})
    text = script(section, ("true",), "fleet", 1, "/logs/slurm-%j.log", None, "made", after)
    assert [line for line in text.splitlines() if "--dependency" in line] == [f"#SBATCH --dependency={told}"]


def test_a_percent_sign_in_the_path_of_the_log_is_itself():
    text = script(SlurmSection(), ("true",), "fleet", 1, "/scratch/50%user/slurm-%j.log", None, "made")
    assert "#SBATCH --output=/scratch/50%%user/slurm-%j.log" in text.splitlines()
