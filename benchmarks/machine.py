"""What a benchmark ran on: processor, memory and versions."""

import os
import platform
import sys
from importlib import metadata

import psutil

LIBRARIES = (
    "apache-beam",
    "tensorflow",
    "tensorflow-transform",
    "pyarrow",
    "numpy",
    "pandas",
    "dask",
    "grain",
    "array-record",
)


def cpu_model() -> str:
    if sys.platform == "linux":
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def version(library: str) -> str | None:
    """None where it is not installed."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def describe() -> dict:
    """Names no host and no date, so that equal machines give equal text."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {library: version(library) for library in LIBRARIES},
        # Above about 0.3 others were at work, and the figures are too high.
        "load_before": round(os.getloadavg()[0], 2),
    }
