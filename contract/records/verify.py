"""What a shard holds, measured and compared in one way: after it is written, and whenever somebody asks.

Whatever is said of a shard elsewhere comes from here.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.manifest import Shard
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.contract.records.frames import Counted


def measure_shard(shard: Counted, rows_of_records: Iterable[Any], windows: Windows) -> Shard:
    """What was seen in a shard, which is read to its end.

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
    return Shard(records=records, windows=count, rows=rows, bytes=shard.bytes, crc32c=shard.crc32c)


def differences(facts: Shard, expected: Mapping[str, Any]) -> list[str]:
    """What a shard holds that differs from `expected`, such as `records 3, expected 4`; none if all is the same."""
    actual = facts.model_dump()
    return [f"{name} {actual[name]}, expected {value}" for name, value in expected.items() if actual[name] != value]
