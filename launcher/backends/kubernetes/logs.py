"""What the first worker of a run writes, shown as it is written."""

import contextlib
import subprocess
import sys
import time

from beamfeed.contract import text
from beamfeed.launcher.backends.kubernetes.kubectl import Kubectl
from beamfeed.launcher.backends.kubernetes.state import Pod
from beamfeed.launcher.display import Display

TAIL = 20  # lines of a run that was there before
AGAIN_SECONDS = 30.0  # from a log that could not be read to the next try
LAST_SECONDS = 10.0  # for what was written at the end


class PodLog:
    """Shows the log of one pod after the other.

    Args:
      kubectl: reads it.
      display: shows it.
      container: of the pods.
      tail: lines to begin with; None for all.
    """

    def __init__(self, kubectl: Kubectl, display: Display, container: str, tail: int | None):
        self._kubectl, self._container, self._tail = kubectl, container, tail
        self._output = display.output()
        self._pod = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._read_at = self._began_at = 0.0

    def follow(self, pod: Pod | None) -> None:
        """Shows the log of this pod, from where it was left; called again and again."""
        if pod is None:
            return
        now, again = time.monotonic(), pod.uid == self._pod
        if again and self._process is not None:
            code = self._process.poll()
            if code is None:
                self._read_at = now
                return
            if code == 0 and pod.phase != "Running":  # it was shown to its end
                return
            if now < self._began_at + AGAIN_SECONDS:
                return
        self._stop()
        options = [f"--since={int(now - self._read_at) + 2}s"] if again else []
        options += [f"--tail={self._tail}"] if self._tail is not None and not self._pod else []
        self._process = subprocess.Popen(
            self._kubectl.logs(pod.name, f"--container={self._container}", "--follow", *options),
            stdin=subprocess.DEVNULL, stdout=self._output.stderr or sys.stderr.fileno(), stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._pod, self._began_at, self._read_at = pod.uid, now, now

    def finish(self) -> None:
        """Waits until what was written is shown."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(LAST_SECONDS)
        self.close()

    def close(self) -> None:
        """Nothing is shown any more."""
        self._stop()
        self._output.finish()

    def _stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def last_line(kubectl: Kubectl, pod: Pod, container: str) -> str:
    """The last line that a pod wrote; where it cannot be read, that it failed."""
    command, failed = kubectl.logs(pod.name, f"--container={container}", "--tail=5"), "the job failed"
    try:
        done = subprocess.run(command, capture_output=True, timeout=60)
    except subprocess.TimeoutExpired:
        return failed
    return (text.last_line(done.stdout) if done.returncode == 0 else "") or failed
