"""How long a training run lives after its last line: `python benchmarks/end_of_run.py --job JOB [--runs 50]`.

The job's dataset must be there. Each run trains one epoch anew, in a folder of its own, with one worker and with two.
Measured from the chief's last line to the end of each process.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack

LIMIT_S = 3.0


def run(job: str, workers: int, workdir: str) -> list[float]:
    """Seconds from the chief's last line to the end of each process."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(workers)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    command = [sys.executable, "-m", "beamfeed.trainer.main", "--job", job]
    for override in (f"train.workdir={workdir}", "train.epochs=1", "train.early_stopping=null"):
        command += ["--set", override]
    processes = []
    for index in range(workers):
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        environ = {**os.environ, **({"TF_CONFIG": json.dumps(config)} if workers > 1 else {})}
        processes.append(
            subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
    ends = [0.0] * workers

    def follow(index: int) -> None:
        processes[index].wait()
        ends[index] = time.monotonic()

    threads = [threading.Thread(target=follow, args=(index,)) for index in range(workers)]
    for thread in threads:
        thread.start()
    told = 0.0
    while processes[0].stdout.readline():
        told = time.monotonic()
    for thread in threads:
        thread.join()
    for process in processes:
        if process.returncode:
            raise SystemExit(process.stderr.read())
    return [max(0.0, end - told) for end in ends]


def main() -> int:
    """Prints the times; 1 if one is over the limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--job", required=True, help="a job file whose dataset is there")
    parser.add_argument("--runs", type=int, default=50)
    arguments = parser.parse_args()
    late = 0
    for workers in (1, 2):
        found = []
        with tempfile.TemporaryDirectory(prefix="beamfeed-end-") as folder:
            for number in range(arguments.runs):
                found.append(max(run(arguments.job, workers, f"{folder}/{number}")))
        late += sum(one > LIMIT_S for one in found)
        print(
            f"{workers} worker{'s' if workers > 1 else ''}: {len(found)} runs, after the last line "
            f"median {statistics.median(found):.2f} s, longest {max(found):.2f} s, "
            f"over {LIMIT_S:g} s: {sum(one > LIMIT_S for one in found)}",
            flush=True,
        )
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
