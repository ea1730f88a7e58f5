"""How many cores this process may use: a container has those of its machine, and a quota."""

import math
import os
from collections.abc import Iterator


def available_cores(root: str = "/", allowed: int | None = None) -> int:
    """The cores that the process may run on, or fewer where the quota of a container pays for fewer; at least one.

    A quota of one and a half cores counts as two.

    Args:
      root: of the file system; for tests.
      allowed: cores that the scheduler gives; left out, the system is asked.
    """
    cores = len(os.sched_getaffinity(0)) if allowed is None else allowed
    return max(1, min([cores, *(math.ceil(quota) for quota in _quotas(root))]))


def _quotas(root: str) -> Iterator[float]:
    """The quotas, in cores, of the process's groups and of those around them, by cgroup v2 and v1."""
    for line in _read(root, "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if not controllers:
            mounts, read = ["sys/fs/cgroup", "sys/fs/cgroup/unified"], _quota_v2
        elif "cpu" in controllers.split(","):
            mounts, read = ["sys/fs/cgroup/cpu", f"sys/fs/cgroup/{controllers}"], _quota_v1
        else:
            continue
        parts = [part for part in group.split("/") if part]
        # Inside a container the folder of its group may be the root of what is mounted.
        for depth in range(len(parts) + 1):
            for mount in mounts:
                if (quota := read(root, "/".join([mount, *parts[:depth]]))) is not None:
                    yield quota


def _quota_v2(root: str, group: str) -> float | None:
    return _ratio(_read(root, f"{group}/cpu.max").split())


def _quota_v1(root: str, group: str) -> float | None:
    return _ratio([_read(root, f"{group}/cpu.cfs_{name}_us").strip() for name in ("quota", "period")])


def _ratio(numbers: list[str]) -> float | None:
    """Microseconds of quota in microseconds of a period; None where there is no limit: `max`, -1, no such file."""
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers) or not int(numbers[1]):
        return None
    return int(numbers[0]) / int(numbers[1]) or None


def _read(root: str, path: str) -> str:
    try:
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:  # another system, or not to be seen from here
        return ""
