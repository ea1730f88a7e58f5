"""`beamfeed` with small programs in the place of its stages, and `far`, a backend whose work outlives the launcher.

    python far.py FOLDER ARGUMENT ...

A stage on this machine runs FOLDER/STAGE.py. One on `far` is begun by the file FOLDER/far-job, and is done when that
holds `done`. Other files of such names say how `far` is; with `far-tied`, only the launcher that began work follows it.
"""

import os
import socket
import sys
import time
from pathlib import Path

from beamfeed.contract.config.section import Section
from beamfeed.contract.errors import UserError
from beamfeed.launcher import cli
from beamfeed.launcher.backends import backends
from beamfeed.launcher.backends.base import Backend, Submission
from beamfeed.launcher.backends.local.backend import LocalBackend
from beamfeed.launcher.stage import PREPROCESS, TRAIN

FOLDER = Path(sys.argv[1]).resolve()


class FarRun(Submission):
    goes_on = not (FOLDER / "far-tied").exists()
    title = "job 7 of Far"

    def __init__(self, stage):
        self.stage, self.file = stage, FOLDER / "far-job"

    def follow(self, progress, display):
        output = display.output()
        os.write(output.stderr or 2, b"far away it begins\n")
        output.finish()
        while True:
            if (FOLDER / "far-breaks").exists():
                raise OSError(12, "Cannot allocate memory")
            if not self.file.exists():
                print(f"{self.stage.name}: job 7 was deleted", file=sys.stderr, flush=True)
                return 1
            if self.file.read_text() == "done":
                self.file.unlink()
                return 0
            time.sleep(0.05)

    def leave(self):
        if (FOLDER / "far-gone").exists():
            raise UserError("Far does not answer")
        print("job 7 goes on", file=sys.stderr, flush=True)

    def cancel(self):
        self.file.unlink(missing_ok=True)

    def state(self):
        return "job 7 is " + self.file.read_text()


class Far(Backend):
    stages = (PREPROCESS, TRAIN)
    section: type[Section] | None = None
    is_billed = (FOLDER / "far-bills").exists()

    def check(self, job, name): ...

    def command(self, name, job, arguments):
        return ("far", *arguments)

    def describe(self, stage):
        return ["far"]

    def submit(self, stage, display):
        run = FarRun(stage)
        if run.file.exists():
            raise UserError("another job is there")
        run.file.write_text("busy")
        while (FOLDER / "far-slow").exists():  # the service has it, and does not answer
            time.sleep(0.05)
        return run

    def chain(self, stage, before, display):
        if (FOLDER / "far-refuses").exists():
            raise UserError("Far takes no second job")

    def find(self, stage):
        if (FOLDER / "far-gone").exists():
            raise UserError("Far does not answer")
        run = FarRun(stage)
        return run if run.file.exists() else None


def main():
    if host := os.environ.get("FAR_HOST"):  # of another machine
        socket.gethostname = lambda: host
    LocalBackend.command = lambda self, name, *_, **__: (sys.executable, str(FOLDER / f"{name}.py"))
    backends()["far"] = Far()
    return cli.main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
