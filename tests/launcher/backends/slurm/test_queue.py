"""What Slurm's commands say is understood, and how a job ended; programs of these tests stand for them."""

import dataclasses
import os
import time

import pytest

from beamfeed.contract.errors import UserError
from beamfeed.launcher.backends.remote import work_of
from beamfeed.launcher.backends.slurm import queue
from beamfeed.launcher.backends.slurm.backend import SlurmBackend, SlurmRun
from beamfeed.launcher.backends.slurm.section import SlurmSection
from beamfeed.launcher.display import Lines
from beamfeed.launcher.progress import StageProgress
from beamfeed.launcher.stage import FLOOR, PREPROCESS, TRAIN, Stage

# As version 22.05 shows a job.
SHOWN = (
    "JobId=7 JobName=fleet UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=1 Nice=0 Account=(null) QOS=(null) "
    "JobState={state} Reason={reason} Dependency=(null) Requeue=1 Restarts={restarts} BatchFlag=1 Reboot=0 "
    "ExitCode={code}:0 RunTime=00:00:03 Comment={comment} Command=(null) WorkDir=/home/a b/x=y StdOut=/logs/slurm-7.log"
)


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Puts programs of a shell on the PATH; what they are called with goes into a file of their name."""
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    (tmp_path / "bin").mkdir()

    def write(**bodies: str):
        for name, body in bodies.items():
            path = tmp_path / "bin" / name
            path.write_text(f'#!/bin/bash\necho "$@" >> {tmp_path}/{name}.calls\n{body}\n')
            path.chmod(0o755)
        return tmp_path

    write(sbatch="cat > /dev/null; echo 7", squeue="", scontrol="", scancel="")
    return write


def shown(state="RUNNING", reason="None", restarts=0, code=0, comment=""):
    return "cat <<'END'\n" + SHOWN.format(**locals()) + "\nEND"


def stage(folder, *more: str, starts_anew=False):
    return Stage(
        TRAIN, ("python", "-m", "x", "--job", "j.yaml", *more), "slurm", 2, f"{folder}/model/logs", False, "",
        restarts=3, starts_anew=starts_anew, output=f"{folder}/model", fingerprint="f" * 64,
        checkpoints=f"{folder}/model/checkpoints",
    )  # fmt: skip


def test_a_job_is_read(programs):
    programs(scontrol=shown("PENDING", "Resources", 2, comment="beamfeed-x"))
    state = queue.job_state("7")
    assert (state.state, state.reason, state.restarts, state.comment) == ("PENDING", "Resources", 2, "beamfeed-x")
    assert not state.ended
    programs(scontrol="echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert queue.job_state("7") is None


def test_the_environment_of_a_job_that_this_runs_in_is_not_taken(programs, monkeypatch):
    for name in ("SLURM_JOB_ID", "SBATCH_PARTITION", "SQUEUE_STATES", "SLURM_CONF"):
        monkeypatch.setenv(name, "x")
    folder = programs(squeue='env > "$0.env"')
    assert queue.active_jobs("fleet") == []
    seen = (folder / "bin" / "squeue.env").read_text()
    assert "SLURM_CONF=x" in seen
    assert not any(name in seen for name in ("SLURM_JOB_ID", "SBATCH_PARTITION", "SQUEUE_STATES"))


def test_a_job_that_is_ending_is_not_followed(programs):
    programs(squeue="echo 6 COMPLETING; echo 7 RUNNING")
    assert queue.active_jobs("fleet") == ["7"]


@pytest.mark.parametrize(
    ("state", "code", "told"),
    [
        (shown("COMPLETED"), 0, ""),
        (shown("FAILED", code=2), 2, "train: what was wrong; its log is"),
        (shown("FAILED", code=1), 1, "train: what was wrong; its log is"),
        (shown("PREEMPTED"), 1, "the job ended as preempted; run the same command to go on"),
        (shown("OUT_OF_MEMORY"), 1, "out of memory; raise launch.train.slurm.memory, or start more workers"),
        ("echo 'Invalid job id specified' >&2; exit 1", 1, "Slurm has forgotten how job 7 ended"),
    ],
)
def test_how_a_job_ended_is_the_exit_code(programs, capsys, state, code, told):
    folder = programs(scontrol=state)
    (folder / "model" / "logs").mkdir(parents=True)
    (folder / "model" / "logs" / "slurm-7.log").write_text("first\nwhat was wrong\nsrun: error: node1: task 0\n\n")
    assert SlurmRun(stage(folder), "7").follow(StageProgress(TRAIN, time.monotonic()), Lines()) == code
    assert told in capsys.readouterr().err


def test_another_job_at_the_same_place_is_not_followed(programs):
    folder, slurm = programs(squeue="echo 7 PENDING"), SlurmBackend()
    mine = stage(folder)
    programs(scontrol=shown("PENDING", comment=work_of(mine)))
    assert slurm.submit(mine, Lines()).job_id == "7"
    follows = stage(folder, "--restart")  # as the one that began it was called
    assert slurm.submit(follows, Lines()).job_id == "7"
    others = [
        stage(folder, "--set", "train.epochs=50"),
        dataclasses.replace(mine, fingerprint="e" * 64),
        stage(folder, "--restart", starts_anew=True),
    ]
    for other in others:
        with pytest.raises(UserError, match="job 7 of Slurm is writing there with other input, settings or options"):
            slurm.submit(other, Lines())
    assert not (folder / "sbatch.calls").exists()


def test_cancel_ends_all_jobs_of_the_name(programs):
    folder = programs(squeue="echo 7 PENDING; echo 9 RUNNING")
    SlurmBackend().find(stage(folder)).cancel()
    assert (folder / "scancel.calls").read_text() == "7\n9\n"


def test_without_slurm_cancel_tells_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match="sbatch is not on this machine's PATH"):
        SlurmBackend().find(stage(tmp_path))


def test_training_waits_for_its_dataset_and_for_no_floor_that_may_fail(programs):
    folder = programs(sbatch='cat > "$0.script"; echo 8')
    before = {name: SlurmRun(dataclasses.replace(stage(folder), name=name), "7") for name in (PREPROCESS, FLOOR)}
    later = stage(folder)
    assert SlurmBackend().chain(later, before[FLOOR], Lines()) is None
    assert SlurmBackend().chain(dataclasses.replace(later, starts_anew=True), before[PREPROCESS], Lines()) is None
    one_of_two = SlurmSection(options={"dependency": "afterany:3?afterany:4"})
    assert SlurmBackend().chain(dataclasses.replace(later, section=one_of_two), before[PREPROCESS], Lines()) is None
    assert SlurmBackend().chain(later, before[PREPROCESS], Lines()).title == "job 8 of Slurm"
    script = (folder / "bin" / "sbatch.script").read_text()
    assert "#SBATCH --dependency=afterok:7\n#SBATCH --kill-on-invalid-dep=yes\n" in script


def test_a_queue_that_answers_late_may_have_taken_the_job(programs, monkeypatch):
    programs(sbatch="exec sleep 5")
    monkeypatch.setattr(queue, "TIMEOUT_SECONDS", 0.5)
    with pytest.raises(UserError, match=r"^sbatch does not answer; the job may be in the queue: run the same command"):
        queue.submit("#!/bin/bash")
    programs(sbatch="echo 'sbatch: error: no such partition' >&2; exit 1")
    with pytest.raises(UserError, match="no such partition; nothing was submitted"):
        queue.submit("#!/bin/bash")
