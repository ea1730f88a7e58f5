"""A stage as a script for sbatch. Pure functions."""

import shlex
from collections.abc import Sequence

from beamfeed.launcher.backends.slurm.section import SlurmSection

SAVE_SECONDS = 300  # before the end of its time, a job is told to save
START_AGAIN = 128  # exit codes from here on: the process did not fail, something ended it


def script(
    section: SlurmSection, command: Sequence[str], name: str, nodes: int, log: str, restarts: int, comment: str
) -> str:
    """The batch script of a stage: a process on each of its nodes, and again where one was lost.

    Args:
      section: what the job asks for.
      command: of each process.
      name: of the job, by which it is found again.
      nodes: on each of which one process runs.
      log: the file for what the processes print; `%j` in it is the id of the job.
      restarts: how often a job that lost a worker, or came to the end of its time, is put into the queue again.
      comment: kept with the job; says what it makes.
    """
    asked = {
        "job-name": name,
        "comment": comment,
        "nodes": nodes,
        "ntasks-per-node": 1,
        "output": log,
        "open-mode": "append",  # a job that is queued again goes on in it
        "requeue": True,
        "signal": f"TERM@{SAVE_SECONDS}",  # without `B:`, so that the processes get it, and save
        "partition": section.partition,
        "account": section.account,
        "qos": section.qos,
        "time": section.time,
        "gpus-per-node": section.gpus,
        "cpus-per-task": section.cpus,
        "mem": section.memory,
        **section.options,
    }
    lines = ["#!/bin/bash"]
    for key, value in asked.items():
        if value is True:
            lines.append(f"#SBATCH --{key}")
        elif value is not None and value is not False:
            lines.append(f"#SBATCH --{key}={shlex.quote(str(value))}")
    of_cores = [f"--cpus-per-task={section.cpus}"] if section.cpus else []  # srun does not inherit it
    step = shlex.join(["srun", "--kill-on-bad-exit=0", *of_cores, *command])
    return "\n".join(
        [
            *lines,
            *section.setup,
            step,
            "code=$?",
            f"if [ $code -ge {START_AGAIN} ] && [ ${{SLURM_RESTART_COUNT:-0}} -lt {restarts} ]; then",
            '  scontrol requeue "$SLURM_JOB_ID" && sleep 60',
            "fi",
            "exit $code",
            "",
        ]
    )
