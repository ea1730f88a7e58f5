"""TensorFlow's own profile of some steps, for TensorBoard: `beamfeed train JOB --profile-steps 100-110`."""

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from beamfeed.contract.verbosity import note

NONE = 2**62


class StepProfile:
    """Records the steps of a range, one in a call.

    Args:
      steps: the first and the last; None records nothing.
      folder: for TensorBoard.
      is_chief: who records; calls end where the range does on all workers.
    """

    def __init__(self, steps: tuple[int, int] | None, folder: str, is_chief: bool):
        self._first, self._last = steps or (NONE, NONE)
        self._folder, self._is_chief = folder, is_chief
        self._running, self._recorded = False, 0

    def limit(self, step: int) -> int:
        """How many steps may run in a call, after so many: up to the range, or one of it."""
        if step + 1 < self._first:
            return self._first - 1 - step
        return 1 if step < self._last else NONE

    @contextmanager
    def recording(self, step: int) -> Iterator[None]:
        """Around the call that runs the step after so many."""
        if not self._is_chief or not self._first <= step + 1 <= self._last:
            yield
            return
        if not self._running:
            tf.profiler.experimental.start(self._folder)
            self._running = True
        with tf.profiler.experimental.Trace("train", step_num=step + 1, _r=1):
            yield
        self._recorded = step + 1

    def end(self, step: int) -> None:
        """Writes what was recorded if the range is over after so many steps; outside of what is timed."""
        if self._running and step >= self._last:
            self.close()

    def close(self) -> None:
        """Writes what was recorded."""
        if self._running:
            self._running = False
            tf.profiler.experimental.stop()
            note(f"{self._folder}: holds a profile of the steps {self._first} to {self._recorded}")
        elif self._is_chief and self._first != NONE and not self._recorded:
            text = f"the steps {self._first} to {self._last} were not run this time, so there is no profile of them"
            note(f"{self._folder}: {text}")
