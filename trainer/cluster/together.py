"""Work of the chief's for which the others wait, none of them in one long call."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

from beamfeed.trainer.cluster.strategy import Cluster
from beamfeed.trainer.cluster.watchdog import Watchdog

TELL_SECONDS = 0.5  # between signs of life


class Together:
    """Lets the chief do what may take long, such as writing to a storage that is slow today.

    The workers ask each other again and again whether it is done. So each of them gives signs of life, and one that is
    gone meanwhile is noticed.

    Args:
      cluster: the workers.
      watchdog: is told that they go on.
    """

    def __init__(self, cluster: Cluster, watchdog: Watchdog):
        self._cluster, self._watchdog = cluster, watchdog
        self._thread = ThreadPoolExecutor(1)

    def __call__(self, what: str, work: Callable[[], None]) -> None:
        """The chief does the work, and no worker returns before it is done. Every worker calls this.

        Args:
          what: it is, for the watchdog.
          work: is called on the chief alone; what it raises is raised there.
        """
        if self._cluster.worker.count == 1:
            work()
            return
        doing = [self._thread.submit(work)] if self._cluster.worker.is_chief else []
        self._watchdog.alive(what)
        while not self._cluster.all_are(not wait(doing, TELL_SECONDS).not_done):
            self._watchdog.alive(what)
        for one in doing:
            one.result()

    def close(self) -> None:
        """Ends its thread."""
        self._thread.shutdown()
