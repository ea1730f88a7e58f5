"""Rows of a series that are set aside keep their position, in whatever order the files have them."""

import random
from pathlib import Path

import numpy as np
import pytest
from series import job_of, schema_of

from beamfeed.contract import storage
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.timeseries.duplicates import merge_duplicates
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset
from beamfeed.transforms.sources.timeseries.read import read_chunks, read_sorted, to_rows
from beamfeed.transforms.sources.timeseries.scan import scan_file


def write(path: Path, rows: list[tuple[int, float, str]]) -> None:
    """Rows of time, value and damage."""
    lines = {"": "{},{}", "cell": "{},oops", "time": "later,{1}", "short": "{}", "quote": '{},"{}'}
    path.write_text("t,x0\n" + "".join(lines[bad].format(time, value) + "\n" for time, value, bad in rows))


def expected(rows: list[tuple[int, float, str]], *, sort: bool, merge: bool) -> list[tuple[int, float, bool]]:
    """Time and value of the rows at each position, and whether one is set aside, by plain loops."""
    found: list[tuple[int, float, bool]] = []
    own = next(time for time, _, bad in rows if bad in ("", "cell"))
    for time, value, bad in rows:
        own = time if bad in ("", "cell") else own
        found.append((own, value, bad != ""))
    if sort:
        found.sort(key=lambda row: row[0])
    if not merge:
        return found
    merged = []
    for time in dict.fromkeys(row[0] for row in found):
        same = [row for row in found if row[0] == time]
        merged += [row for row in same if not row[2]][:1] + [row for row in same if row[2]]
    return merged


@pytest.mark.parametrize("seed", range(20))
def test_positions_by_plain_loops(tmp_path, monkeypatch, seed):
    from beamfeed.transforms.sources.readers import blocks
    from beamfeed.transforms.sources.readers import expected as sizes

    chance = random.Random(seed)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", chance.choice([40, 1 << 20]))
    monkeypatch.setattr(sizes, "BATCH_ROWS", chance.choice([3, 1000]))
    count, sort, merge = 60, chance.random() < 0.5, chance.random() < 0.5
    times = [i // 2 if merge else i for i in range(count)]
    if sort:
        chance.shuffle(times)
    kinds = ["", "", "", "", "cell", "time", "short", "quote"]
    rows = [(time, i + 0.5, chance.choice(kinds)) for i, time in enumerate(times)]
    write(tmp_path / "good.csv", [(i, 0.5, "") for i in range(9)])
    write(tmp_path / "a.csv", rows)
    schema = schema_of(tmp_path / "good.csv", "t", features=["x0"])
    job = job_of(tmp_path / "a.csv", "t", features=["x0"])
    (piece,) = scan_file(storage.stat(str(tmp_path / "a.csv")), job.source.asset, schema, None, scratch="")
    asset = SeriesAsset("a", (piece,), "train", total=piece.rows, last=piece.last)
    chunks = read_sorted(asset, schema) if sort else read_chunks(asset, schema)
    chunks = merge_duplicates(chunks, "first") if merge else chunks
    found = list(to_rows(chunks, asset, "train", job.split, None))
    wanted = expected(rows, sort=sort, merge=merge)
    right = [i for i, row in enumerate(wanted) if not row[2]]
    assert np.concatenate([some.position for some in found]).tolist() == right
    assert np.concatenate([some.time for some in found]).tolist() == [wanted[i][0] for i in right]
    assert np.concatenate([some.values[:, 0] for some in found]).tolist() == [wanted[i][1] for i in right]
    gaps = np.concatenate([some.gap for some in found])
    assert all(gaps[k] for k, i in enumerate(right) if i and wanted[i - 1][2])


DOUBTFUL = {
    "day for month": ("13.01.2024 10:00", "01.14.2024 10:00", {}),
    "a clock that was put forward": ("2024-03-01 02:30", "2024-03-31 02:30", {"zone": "Europe/Berlin"}),
}


@pytest.mark.parametrize("case", DOUBTFUL)
def test_a_time_that_makes_others_doubtful_costs_its_file(tmp_path, case):
    good, bad, time = DOUBTFUL[case]
    (tmp_path / "good.csv").write_text(f"t,x0\n{good},1\n")
    (tmp_path / "bad.csv").write_text(f"t,x0\n{good},1\n{bad},2\n{good},3\n")
    schema = schema_of(tmp_path / "good.csv", {"column": "t", **time}, features=["x0"])
    with pytest.raises(BadInput, match="line 3"):
        scan_file(storage.stat(str(tmp_path / "bad.csv")), job_of(tmp_path, "t").source.asset, schema, None, "")


@pytest.mark.parametrize("line", ["7", "7,1,a,b", '"7,1,a'])
def test_a_line_that_does_not_tell_its_asset_costs_its_file(tmp_path, line):
    (tmp_path / "good.csv").write_text("t,x0,m\n1,1,a\n2,1,b\n")
    (tmp_path / "bad.csv").write_text(f"t,x0,m\n1,1,a\n{line}\n2,1,b\n")
    source = {"features": ["x0"], "asset": {"column": "m"}}
    schema = schema_of(tmp_path / "good.csv", "t", **source)
    job = job_of(tmp_path / "bad.csv", "t", **source)
    with pytest.raises(BadInput, match=r"line 3: .*; which asset it is of is not known"):
        scan_file(storage.stat(str(tmp_path / "bad.csv")), job.source.asset, schema, None, str(tmp_path))
