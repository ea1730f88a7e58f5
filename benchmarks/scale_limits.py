"""How long each step of preprocessing takes on many workers, and which is the first that more workers do not help.

    python benchmarks/scale_limits.py [--terabytes 100] [--workers 10000]

What one process does is measured here, on a fleet of 10,000 assets of 300 MB, by the code that plans a job. The rates
of reading are those of launcher/estimate.py, halved. Those of a bucket are documented by Google or assumed: BUCKET.
"""

import argparse
from dataclasses import dataclass
from functools import cache

from scale import ASSET_ROWS, BYTES_OF_A_ROW, PARQUET_MB_OF_A_MILLION_ROWS, plan

from beamfeed.launcher.estimate import CARE, RATES

SAMPLE = 10_000  # assets that are planned here
ASSET_BYTES = ASSET_ROWS * PARQUET_MB_OF_A_MILLION_ROWS
BUCKET = {
    "writes": 1000.0,  # of objects in a second, as documented for a bucket that has not grown yet
    "page": 1000,  # names in an answer to a listing
    "page_seconds": 0.5,  # assumed
    "footer_seconds": 0.2,  # to read the end of a file; assumed
}
WRITES_OF_A_SHARD = 3  # it is written aside, copied to its name, and removed there
VERIFY_BYTES = 500e6  # read and checked by one core in a second; assumed: half of what CRC32C and a network give
GATHERED = 2000  # bytes that the worker that publishes holds of a shard; docs/scale.md


@dataclass(frozen=True)
class Step:
    """A step of a job.

    Attributes:
      name: of it.
      seconds: that it takes.
      memory: bytes that one process needs for it.
      limit: what it is bound by; empty where more workers help.
    """

    name: str
    seconds: float
    memory: float
    limit: str


@cache
def measured() -> dict:
    """What planning the sample takes, once in a process."""
    return plan(SAMPLE)


def steps(terabytes: float, workers: int) -> list[Step]:
    """The steps of preprocessing so much Parquet."""
    planned = measured()
    assets = terabytes * 1e12 / ASSET_BYTES
    per_asset = {key: planned[key] / SAMPLE for key in ("seconds", "shards", "manifest_mb")}
    shards = assets * per_asset["shards"]
    raw = assets * ASSET_ROWS * BYTES_OF_A_ROW
    decode = terabytes * 1e12 / RATES["parquet"] * CARE / workers
    return [
        Step("list the files", assets / BUCKET["page"] * BUCKET["page_seconds"], assets * 300, "one process lists"),
        Step("scan footers", assets * BUCKET["footer_seconds"] / workers, 0, ""),
        Step("read and validate", decode, 0, ""),
        Step("plan shards", assets * per_asset["seconds"], assets * 2200, "one process plans"),
        Step("read again, write", decode, 0, ""),
        Step("name the shards", shards * WRITES_OF_A_SHARD / BUCKET["writes"], 0, "writes of a bucket"),
        Step("verify", raw / VERIFY_BYTES / workers, 0, ""),
        Step("publish", shards / 10_000, shards * GATHERED, "one process gathers"),
    ]


def main() -> None:
    """Prints a table, and the step that is the first not to get faster."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--terabytes", type=float, default=100.0)
    parser.add_argument("--workers", type=int, default=10_000)
    arguments = parser.parse_args()
    found = steps(arguments.terabytes, arguments.workers)
    print(f"{arguments.terabytes:g} TB of Parquet on {arguments.workers:,} cores")
    print("| step | seconds | memory of one process, MB | more workers |")
    print("| --- | ---: | ---: | --- |")
    for step in found:
        memory = f"{step.memory / 1e6:,.0f}" if step.memory else ""
        helps = f"do not help: {step.limit}" if step.limit else "help"
        print(f"| {step.name} | {step.seconds:,.0f} | {memory} | {helps} |")
    slowest = max((step for step in found if step.limit), key=lambda step: step.seconds)
    whole = sum(step.seconds for step in found)
    print(f"first to break: {slowest.name}, {slowest.seconds / whole:.0%} of {whole / 60:,.0f} minutes")


if __name__ == "__main__":
    main()
