"""Rows of files that go with a dataset."""

import pyarrow as pa

from beamfeed.contract.dataset.raw_rows import RawRows, read_raw_rows, write_raw_rows


def test_equal_rows_give_equal_bytes_in_any_order_and_are_read_again(tmp_path):
    raw = {"b": pa.array([b"1", b""]), "a": pa.array([b"x", b"y"])}
    fields = {"z": pa.array([0.5, 1.5, 2.5, 3.5], pa.float32()), "y": pa.array([1, 2])}
    rows = RawRows(["f, row 0", "f, row 1"], raw, fields)
    other = RawRows(rows.places, dict(reversed(raw.items())), dict(reversed(fields.items())))
    for name, one in (("one", rows), ("other", other)):
        write_raw_rows(str(tmp_path / name), one)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    assert read_raw_rows(str(tmp_path / "one")) == other
