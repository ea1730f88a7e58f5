"""A stage as a script for sbatch. Pure functions."""

import shlex
from collections.abc import Sequence

from beamfeed.launcher.backends.slurm.section import SlurmSection

SAVE_SECONDS = 300  # before the end of its time, a job is told to save
STEP = """\
{step} &
step=$!
# srun waits for ever for a worker whose machine could not tell it that the worker ended, though Slurm itself knows.
(
  gone=0
  while [ $gone -lt 3 ] && sleep 20; do
    steps=$(squeue --noheader --steps --jobs "$SLURM_JOB_ID" --format %i) || continue
    if grep -q '[.][0-9]' <<< "$steps"; then gone=0; else gone=$((gone + 1)); fi
  done
  kill -KILL $step
) &
watch=$!
wait $step
code=$?
kill $watch 2> /dev/null
"""
# 143: it was told to stop, and has saved. Others from 128 on: it did not fail, something ended it.
AGAIN = """\
if [ $code -eq 143 ] || {{ [ $code -ge 128 ] && [ ${{SLURM_RESTART_COUNT:-0}} -lt {restarts} ]; }}; then
  scontrol requeue "$SLURM_JOB_ID" && sleep 60
fi
"""


def script(
    section: SlurmSection, command: Sequence[str], name: str, nodes: int, log: str, restarts: int | None, comment: str
) -> str:
    """The batch script of a stage: a process on each of its nodes, and again where one was lost.

    Args:
      section: what the job asks for.
      command: of each process.
      name: of the job, by which it is found again.
      nodes: on each of which one process runs.
      log: the file for what the processes print; `%j` in it is the id of the job.
      restarts: how often a job that lost a worker is put into the queue again, which one that was told to stop always
        is; None for a stage that would begin from the start.
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
    again = AGAIN.format(restarts=restarts) if restarts is not None else ""
    return "\n".join([*lines, *section.setup, f"{STEP.format(step=step)}{again}exit $code\n"])
