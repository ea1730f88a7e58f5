"""What the job file says of Slurm, as a script; that it runs is shown by tests/engines/test_slurm.py."""

import subprocess

import pytest

from beamfeed.contract.errors import UserError
from beamfeed.launcher.backends import backends
from beamfeed.launcher.backends.slurm.script import script
from beamfeed.launcher.backends.slurm.section import SlurmSection
from beamfeed.launcher.job import load_job
from beamfeed.launcher.stage import TRAIN


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
    assert found[at + 1] == "srun --kill-on-bad-exit=0 --cpus-per-task=16 python -m x --set 'a=[b c]' &"


def test_only_what_goes_on_from_a_checkpoint_is_put_into_the_queue_again():
    assert any("scontrol requeue" in line for line in lines({}))
    assert any("-lt 7 ]" in line for line in lines({}, restarts=7))
    assert not any("scontrol requeue" in line for line in lines({}, restarts=None))


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ("{time: soon}", "'soon' is not allowed, it must be a time, such as 12:00:00"),
        ("{memory: 64 GB}", "'64 GB' is not allowed, it must be a size, such as 64G"),
        ("{partition: 'a b'}", "it must be a name without a space"),
        ("{gpus: 0}", "slurm.gpus: 0 is not allowed"),
        ("{options: {--mem: 3}}", "it must be the long name of an option of sbatch"),
        ("{nodes: 3}", "slurm.nodes: unknown key"),
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
