"""What a shard holds, measured once and compared once."""

import io

import google_crc32c
import numpy as np
import pytest

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.manifest import Shard
from beamfeed.contract.records.frames import CHUNK_BYTES, Counted
from beamfeed.contract.records.verify import differences, measure_shard


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1])
def test_the_checksum_is_that_of_the_whole(size):
    data = np.random.default_rng(1).integers(0, 256, size, np.uint8).tobytes()
    facts = measure_shard(Counted(io.BytesIO(data)), [], Windows(length=1))
    assert (facts.bytes, facts.crc32c) == (size, f"{google_crc32c.value(data):08x}")


def test_counts_add_up_over_batches():
    rows = [np.array([8, 11]), np.array([12, 7, 20])]
    facts = measure_shard(Counted(io.BytesIO(b"123456789")), iter(rows), Windows(length=8, stride=4))
    assert facts == Shard(records=5, windows=1 + 1 + 2 + 0 + 4, rows=58, bytes=9, crc32c="e3069283")


def test_each_difference_is_named():
    facts = Shard(records=3, windows=5, rows=40, bytes=100, crc32c="0f" * 4)
    assert differences(facts, {"records": 3, "rows": 40}) == []
    assert differences(facts, {"windows": 6, "crc32c": "00" * 4}) == [
        "windows 5, expected 6",
        "crc32c 0f0f0f0f, expected 00000000",
    ]
