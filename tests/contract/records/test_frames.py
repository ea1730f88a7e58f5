"""The records of TFRecord files, whole and damaged, beside TensorFlow's own reader."""

import gzip
import io
import os
import struct

import foreign
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from beamfeed.contract.records import frames
from beamfeed.contract.records.frames import Counted, Damaged, is_tfrecord, read_frames, unpacked

RECORDS = [b"", b"one", b"x" * 70_000, b"\x00" * 9, b"last"]


def read(data: bytes, compression: str = "none") -> list[bytes]:
    file = unpacked(Counted(io.BytesIO(data)), compression)
    return [record for batch in read_frames(file) for record in batch]


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_records_are_those_of_tensorflow(tmp_path, compression):
    data = foreign.write(tmp_path / "a", RECORDS, compression).read_bytes()
    assert read(data, compression.lower() or "none") == RECORDS
    assert is_tfrecord(data) == (compression == "")


@pytest.mark.parametrize("chunk", [1, 7, 100_000])
def test_pieces_of_any_size_give_the_same(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(frames, "CHUNK_BYTES", chunk)
    monkeypatch.setattr(frames, "BATCH_BYTES", 10)
    records = [record[:300] for record in RECORDS]
    assert read(foreign.write(tmp_path / "a", records).read_bytes()) == records


def test_what_was_read_is_counted(tmp_path):
    data = foreign.write(tmp_path / "a", RECORDS).read_bytes()
    counted = Counted(io.BytesIO(data))
    list(read_frames(counted))
    import google_crc32c

    assert (counted.bytes, counted.crc32c) == (len(data), f"{google_crc32c.value(data):08x}")


@given(st.data())
def test_each_byte_that_is_another_is_found_where_it_is(data):
    records = [b"first", b"", b"the third record"]
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"frames-{os.getpid()}")
    with tf.io.TFRecordWriter(path) as writer:
        for record in records:
            writer.write(record)
    with open(path, "rb") as file:
        whole = bytearray(file.read())
    os.unlink(path)
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    starts = [0, 21, 37]
    before = []
    with pytest.raises(Damaged) as caught:
        before.extend(record for some in read_frames(io.BytesIO(bytes(whole))) for record in some)
    number = max(index for index, start in enumerate(starts) if start <= at)
    assert before == records[:number]
    assert caught.value.place == f"record {number}, byte {starts[number]}"


@pytest.mark.parametrize("end", [1, 11, 12, 18, 22, 36, 40])
def test_a_file_that_is_cut_off(tmp_path, end):
    data = foreign.write(tmp_path / "a", [b"first", b"", b"the third record"]).read_bytes()[:end]
    whole = [0, 21, 37]
    if end in whole:
        return
    with pytest.raises(Damaged) as caught:
        read(data)
    number = max(index for index, start in enumerate(whole) if start <= end)
    assert caught.value.place == f"record {number}, byte {whole[number]}"
    assert "ends" in caught.value.reason


def test_a_record_that_no_example_can_be_is_not_read():
    class Zeros:
        """A file of a good record and the head of one of 2 GB; what comes after is zeros without end."""

        def __init__(self, length):
            good = struct.pack("<Q", 3)
            self.left = [good + sum_of(good) + b"abc" + sum_of(b"abc"), struct.pack("<Q", length)]
            self.left[1] += sum_of(self.left[1])
            self.reads = 0

        def read(self, size):
            self.reads += 1
            assert self.reads < 5
            return self.left.pop(0) if self.left else bytes(size)

    def sum_of(data):
        return struct.pack("<I", frames.masked(data))

    with pytest.raises(Damaged, match="is of 2,147,483,648 bytes; an Example has 2,147,483,647 at most") as caught:
        list(read_frames(Zeros(1 << 31)))
    assert caught.value.place == "record 1, byte 19"
    with pytest.raises(Damaged, match="is of 18,446,744,073,709,551,615 bytes"):
        list(read_frames(Zeros((1 << 64) - 1)))
    with pytest.raises(Damaged, match="is of 1,000 bytes; of a packed file it must have 999 at most"):
        list(read_frames(Zeros(1000), most=999))


def test_a_compressed_file_that_is_cut_off(tmp_path):
    data = foreign.write(tmp_path / "a", [os.urandom(1000)] * 5, "GZIP").read_bytes()
    with pytest.raises(Damaged, match="cannot be unpacked"):
        read(data[:-100], "gzip")
    with pytest.raises(Damaged, match="cannot be unpacked"):
        read(data + b"garbage that is no member", "gzip")
    assert gzip.decompress(data)
