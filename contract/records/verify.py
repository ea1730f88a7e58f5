"""What a shard holds, measured and compared in one way: after it is written, and whenever somebody asks.

Whatever is said of a shard elsewhere comes from here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.contract.records.frames import Counted, Readable


@dataclass(frozen=True)
class ShardFacts:
    """What was seen in a shard; the names are those of `contract.dataset.manifest.Shard`."""

    records: int
    windows: int
    rows: int
    bytes: int
    crc32c: str


def checksum(file: Readable) -> tuple[int, str]:
    """Size in bytes, and CRC-32C as 8 hex digits, of what is left in a file."""
    counted = Counted(file)
    while counted.read():
        pass
    return counted.bytes, counted.crc32c


def measure_shard(shard: Counted, rows_of_records: Iterable[Any], windows: Windows) -> ShardFacts:
    """Reads a shard to its end.

    Args:
      shard: its bytes; who gives the records may read them from here.
      rows_of_records: arrays of integers, one number for each record: its rows.
      windows: of the dataset.
    """
    records = rows = count = 0
    for batch in rows_of_records:
        records += len(batch)
        rows += int(batch.sum())
        count += int(count_windows(batch, windows.length, windows.stride).sum())
    while shard.read():
        pass
    return ShardFacts(records, count, rows, shard.bytes, shard.crc32c)


def differences(facts: ShardFacts, expected: Mapping[str, Any]) -> list[str]:
    """What a shard holds that differs from `expected`, such as `records 3, expected 4`; none if all is the same."""
    actual = asdict(facts)
    return [f"{name} {actual[name]}, expected {value}" for name, value in expected.items() if actual[name] != value]
