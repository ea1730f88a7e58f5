"""Which rows of a dataset count once, and the rows of new files as a dataset gives its own back."""

import base64

import numpy as np
import pyarrow as pa
import pytest

from beamfeed.contract.config.prepare import Windows
from beamfeed.transforms.scoring.sides import KeyNames, Places
from beamfeed.transforms.scoring.stored import Scale
from beamfeed.transforms.sources.record_block import RecordBlock
from beamfeed.transforms.statistics.scaling import scale_rows


def counted(records: list[tuple[str, int, int]], blocks: int) -> list[tuple[str, int]]:
    """The rows that count, of records of an asset from a start on, so many rows long, which come in some blocks."""
    places, found = Places("row", Windows(length=4, stride=2), KeyNames("asset", "start"), "file"), []
    for part in np.array_split(np.arange(len(records)), blocks):
        names, starts, sizes = zip(*(records[at] for at in part), strict=True)
        rows = np.array(sizes)
        keys = {"asset": pa.array(names), "start": np.array(starts)}
        named, positions, once = places.of(RecordBlock("", np.cumsum(rows) - rows, rows, keys))
        found += [(str(name), int(at)) for name, at, counts in zip(named, positions, once, strict=True) if counts]
    return found


@pytest.mark.parametrize("blocks", [1, 2, 3, 6])
def test_rows_count_once_in_whatever_order_parts_of_an_asset_come(blocks: int) -> None:
    """Each part from its start on in records that overlap: the last one first, and another asset between them."""
    records = [("a", 20, 6), ("a", 24, 6), ("a", 0, 6), ("a", 4, 6), ("b", 0, 6), ("a", 10, 6)]
    found = counted(records, blocks)
    assert len(found) == len({*found})
    assert {*found} == {(name, at) for name, start, size in records for at in range(start, start + size)}


@pytest.mark.parametrize("logs", [False, True])
def test_rows_are_clipped_as_a_dataset_gives_them_back(tmp_path, logs: bool) -> None:
    """Scaled, clipped and unscaled again, each by its asset's own scale; those of another asset by the fleet's."""
    fleet, own = np.array([[2, -1], [3, 0.5]], np.float32), np.array([[5, 1], [1, 4]], np.float32)
    name, packed = (base64.urlsafe_b64encode(part).rstrip(b"=") for part in (b"m1", own.tobytes()))
    (tmp_path / "scale.tsv").write_bytes(b"-\t\n" + name + b"\t" + packed + b"\n")
    scale = Scale(fleet, np.array([logs, False]), by_asset=str(tmp_path / "scale.tsv"))
    raw = np.random.default_rng(1).normal(0, 20, (400, 2)).astype(np.float32)
    raw[7, 1] = np.nan
    assets, sizes = pa.array([b"m1", b"new"] * 200), np.array([1.5, np.inf], np.float32)
    found = scale.as_stored(raw, assets, constant=0.0, sizes=sizes)
    for first, rows in ((0, own), (1, fleet)):
        values = raw[first::2].copy()
        if logs:
            values[:, 0] = np.sign(values[:, 0]) * np.log1p(np.abs(values[:, 0]))
        scaled = scale_rows(values, rows)
        scaled[:, 0] = scaled[:, 0].clip(-1.5, 1.5)
        expected = Scale(rows, scale.logs).undo(scaled, None)
        np.testing.assert_allclose(found[first::2], expected, rtol=1e-4, atol=1e-4)
    assert 0.1 < np.isclose(found[:, 0], raw[:, 0]).mean() < 0.9
