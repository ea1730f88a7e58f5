"""A stage as a script for sbatch. Pure functions."""

import os
import shlex
from collections.abc import Sequence

from beamfeed.contract.cluster.worker_info import GPUS
from beamfeed.launcher.backends.slurm.section import SlurmSection

SAVE_SECONDS = 300  # before the end of its time a job is told to save; a third of the time, where that is less
WAIT_SECONDS = 300  # from the end of the first worker, for others that are frozen
LONG_SECONDS = 900  # a turn of so many seconds has got on: what ended turns before it does not count any more
LOST = 138  # the exit code of a worker that missed another
# A worker that failed leaves its code, as srun returns the highest, which is that of the workers that then missed it.
# One that missed another leaves a mark: what is left of them is frozen, and ends by itself only after WAIT_SECONDS.
TASK = (
    'trap : TERM; "$@"; code=$?; '
    f'if [ $code = {LOST} ]; then : > "$LOST"; '
    'elif [ $code != 0 ] && [ $code -lt 128 ]; then echo $code > "$FAILED"; fi; exit $code'
)
STEP = """\
export FAILED={state}-failed-$SLURM_JOB_ID LOST={state}-lost-$SLURM_JOB_ID
rm -f "$FAILED" "$LOST"
{step} &
step=$!
# srun waits for ever for a worker whose machine could not tell it that the worker ended, though Slurm itself knows.
(
  seen= gone=0 lost=0
  while [ $gone -lt 3 ] && sleep 20; do
    steps=$(squeue --noheader --steps --jobs "$SLURM_JOB_ID" --format %i) || continue
    if [ -e "$LOST" ] && [ $((lost += 1)) -ge 3 ]; then scancel $(grep '[.][0-9]' <<< "$steps"); fi
    if grep -q '[.][0-9]' <<< "$steps"; then seen=yes gone=0; elif [ $seen ]; then gone=$((gone + 1)); fi
  done
  kill -KILL $step
) &
watch=$!
code=0
wait $step || code=$?
kill $watch 2> /dev/null || true
rm -f "$LOST"
if [ -s "$FAILED" ]; then
  code=$(< "$FAILED")
  rm -f "$FAILED"
fi
"""
# From 128 on it did not fail, something ended it: a signal, the end of its time, a job that comes first, a lost worker.
AGAIN = """\
turns={state}-turns-$SLURM_JOB_ID
if [ $code -ge 128 ]; then
  short=$(cat "$turns" 2> /dev/null || echo 0)
  if [ $SECONDS -ge {long} ]; then short=0; else short=$((short + 1)); fi
  if [ $short -le {restarts} ]; then
    echo $short > "$turns"
    scontrol requeue "$SLURM_JOB_ID" && sleep 60
  fi
fi
rm -f "$turns"
"""


def script(
    section: SlurmSection,
    command: Sequence[str],
    name: str,
    nodes: int,
    log: str,
    restarts: int | None,
    comment: str,
    after: str | None = None,
) -> str:
    """The batch script of a stage: a process on each of its nodes, and again where one was lost.

    Args:
      section: what the job asks for.
      command: of each process.
      name: of the job, by which it is found again.
      nodes: on each of which one process runs.
      log: the file for what the processes print; `%j` in it is the id of the job.
      restarts: how many short turns in a row are ended, by a lost worker or the end of its time, until it is not put
        into the queue again; None for a stage that does not save, and would begin from the start.
      comment: kept with the job; says what it makes.
      after: on which job it waits, such as `afterok:12`; where that fails, it never begins. What
        the section's options say of it counts as well.
    """
    directives = {
        "job-name": name,
        "comment": comment,
        "nodes": nodes,
        "ntasks-per-node": 1,
        "output": log.replace("%", "%%").replace("%%j", "%j"),
        "open-mode": "append",  # a job that is queued again goes on in it
        "requeue": True,
        "signal": None if restarts is None else f"TERM@{_lead(section)}",  # without `B:`, so that the processes get it
        "dependency": after,
        "kill-on-invalid-dep": "yes" if after else None,
        "partition": section.partition,
        "account": section.account,
        "qos": section.qos,
        "time": section.time,
        "gpus-per-node": section.gpus,
        "cpus-per-task": section.cpus,
        "mem": section.memory,
        **section.options,
    }
    if after and (own := section.options.get("dependency")):
        directives["dependency"] = f"{after},{own}"
    lines = ["#!/bin/bash"]
    for key, value in directives.items():
        if value is True:
            lines.append(f"#SBATCH --{key}")
        elif value is not None and value is not False:
            lines.append(f"#SBATCH --{key}={shlex.quote(str(value))}")
    of_cores = [f"--cpus-per-task={section.cpus}"] if section.cpus else []  # srun does not inherit it
    step = shlex.join(
        ["srun", "--kill-on-bad-exit=0", f"--wait={WAIT_SECONDS}", *of_cores, "bash", "-c", TASK, "bash", *command]
    )
    state = shlex.quote(os.path.join(os.path.dirname(log), ".slurm"))
    again = AGAIN.format(state=state, long=LONG_SECONDS, restarts=restarts) if restarts is not None else ""
    given = [f"export {GPUS}={section.gpus}"] if section.gpus else []
    return "\n".join([*lines, *section.setup, *given, f"{STEP.format(state=state, step=step)}{again}exit $code\n"])


def _lead(section: SlurmSection) -> int:
    """Seconds before the end of its time when a job is told to save."""
    return SAVE_SECONDS if section.seconds is None else max(1, min(SAVE_SECONDS, int(section.seconds / 3)))
