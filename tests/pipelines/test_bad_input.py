"""Every kind of bad input: the message or the reject says what, where and why, and the rest goes on."""

import gzip
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fleets import make_table, split_of

from beamfeed.pipelines.preprocess import main


@pytest.fixture
def good(fleet):
    """Four assets that are fine; each test adds a fifth."""
    for i in range(4):
        fleet.write(f"m{i}.parquet", make_table(40, seed=i))
    return fleet


def truncated(path: Path) -> None:
    pq.write_table(make_table(1000), path)
    path.write_bytes(path.read_bytes()[:-200])


def broken_page(path: Path) -> None:
    pq.write_table(make_table(5000), path, compression="snappy", row_group_size=1000)
    content = bytearray(path.read_bytes())
    at = pq.read_metadata(path).row_group(3).column(2).data_page_offset
    content[at : at + 400] = b"\xff" * 400
    path.write_bytes(bytes(content))


def write(path: Path, table: pa.Table) -> None:
    pq.write_table(table, path)


CASES = {
    "empty file": ("parquet", lambda p: p.write_bytes(b""), "file", "the file is empty"),
    "truncated": ("parquet", truncated, "file", "cannot be read: "),
    "not Parquet": ("parquet", lambda p: p.write_text("hello, world\n" * 9), "file", "cannot be read: "),
    "broken page": ("parquet", broken_page, "file", "cannot be read: "),
    "missing column": (
        "parquet",
        lambda p: write(p, make_table(40).drop_columns(["x1"])),
        "column x1",
        "is missing; the file has t, x0, x2",
    ),
    "text column": (
        "parquet",
        lambda p: write(p, make_table(40, x1=["text"] * 40)),
        "column x1",
        "is string, a number is needed",
    ),
    "another type of time": (
        "parquet",
        lambda p: write(p, make_table(40, t=pa.array(range(40), pa.timestamp("ms")))),
        "column t",
        "is timestamp[ms], the other files have int64 for the time",
    ),
    "a list column": (
        "parquet",
        lambda p: write(p, make_table(40, x2=pa.array([[1.0]] * 40))),
        "column x2",
        "a number is needed",
    ),
    "no rows": ("parquet", lambda p: write(p, make_table(0)), "file", "holds no rows"),
    "fewer rows than a window": (
        "parquet",
        lambda p: write(p, make_table(7)),
        "file",
        "has 7 rows, a window needs 8",
    ),
    "no window without a gap": (
        "parquet",
        lambda p: write(p, make_table(40, x0=np.full(40, np.nan, "f4"))),
        "file",
        "has no 8 rows in a row without a gap or a missing value",
    ),
    "duplicated times": (
        "parquet",
        lambda p: write(p, make_table(40, t=np.r_[0:20, 19:39])),
        "row 20",
        "has the time of another row of its asset",
    ),
    "duplicated times after sorting": (
        "parquet",
        lambda p: write(p, make_table(40, t=np.r_[20:40, 0:19, 20])),
        "row 39",
        "has the time of another row of its asset",
    ),
    "decreasing times too large to sort": (
        "parquet",
        lambda p: write(p, make_table(100_000, t=np.arange(100_000)[::-1])),
        "row 1",
        "times decrease, and sorting takes 3.4 MB, over limits.sort_memory_mb: 1",
    ),
    "empty CSV": ("csv", lambda p: p.write_bytes(b""), "file", "the file is empty"),
    "CSV with a header alone": ("csv", lambda p: p.write_text("t,x0,x1,x2\n"), "file", "holds no rows"),
    "CSV without a column": (
        "csv",
        lambda p: p.write_text("t,x0\n" + "1,2\n" * 9),
        "column x1",
        "is missing; the file has t, x0",
    ),
    "zero bytes": ("csv", lambda p: p.write_bytes(b"t,x0,x1,x2\n1,2,\0,4\n"), "line 2", "is not text: byte 0x00"),
    "not gzip": ("csv.gz", lambda p: p.write_text("t,x0,x1,x2\n1,2,3,4\n"), "file", "cannot be read: "),
    "truncated gzip": (
        "csv.gz",
        lambda p: p.write_bytes(
            gzip.compress(("t,x0,x1,x2\n" + "".join(f"{i},1.{i},2.{i},3\n" for i in range(9000))).encode())[:-900]
        ),
        "file",
        "cannot be read: ",
    ),
}  # fmt: skip


# The rules of CSVs are those of all of them, so this one is the only one of its fleet.
ALONE = {
    "not as source.csv says": (
        "csv",
        lambda p: p.write_text("t;x0;x1;x2\n1;2;3;1,5\n2;2;3;1.5\n"),
        "file",
        "'1,5' and '1.5' are numbers of two kinds; source.csv.decimal says which is right",
    ),
}  # fmt: skip


def bad_files(fleet, cases) -> dict[Path, tuple[str, str, str]]:
    """Writes a file for each case, an asset of its name; by path the asset, the place and the reason to expect."""
    found = {}
    for number, (suffix, make, place, reason) in enumerate(cases.values()):
        path = fleet.files / f"bad{number:02d}.{suffix}"
        make(path)
        found[path] = f"bad{number:02d}", place, reason
    return found


def check_rejects(fleet, expected) -> None:
    rejects = {Path(reject["file"]): reject for reject in fleet.rejects()}
    assert len(fleet.rejects()) == len(expected)
    for path, (asset, place, reason) in expected.items():
        assert (rejects[path]["asset"], rejects[path]["place"]) == (asset, place)
        assert reason in rejects[path]["reason"]


@pytest.mark.parametrize("cases", [CASES, ALONE])
def test_bad_data_is_set_aside_and_the_job_goes_on(good, cases):
    bad = bad_files(good, cases)
    overrides = ("limits.sort_memory_mb=1", "prepare.duplicates=reject", "limits.max_rejected_fraction=0.9")
    assert good.preprocess(*overrides) == 0
    check_rejects(good, bad)
    counts = good.manifest.counts
    assert (counts.assets, counts.rejected_assets, counts.rejected_files) == (4 + len(bad), len(bad), len(bad))
    assert counts.rows_read == 160
    assert sum(split.assets for split in good.manifest.splits.values()) == 4


JSON_ROW = '{"t": %d, "x0": 0.5, "x1": 0.25, "x2": 2}\n'
ROWS = {
    "missing time": (
        "parquet",
        lambda p: write(p, make_table(40, t=pa.array([None if i == 17 else i for i in range(40)]))),
        "row 17",
        "the time is missing",
    ),
    "text in a number column of a CSV": (
        "csv",
        lambda p: p.write_text("t,x0,x1,x2\n" + "".join(f"{i},1,{'oops' if i == 11 else 2},3\n" for i in range(40))),
        "line 13, column x1",
        "'oops' is not a number",
    ),
    "CSV row that is too short": (
        "csv",
        lambda p: p.write_text("t,x0,x1,x2\n" + "".join(f"{i},1,2{',3' if i != 11 else ''}\n" for i in range(40))),
        "line 13",
        "expected 4 columns, got 3: 11,1,2",
    ),
    "a broken line of JSON": (
        "jsonl",
        lambda p: p.write_text("".join(JSON_ROW % i if i != 11 else '{"t": 11, "x0"\n' for i in range(40))),
        "line 12",
        "cannot be read as JSON",
    ),
    "a list in JSON": (
        "jsonl",
        lambda p: p.write_text("".join(JSON_ROW % i for i in range(40)).replace('11, "x0": 0.5', '11, "x0": [1]')),
        "line 12, column x0",
        "is a list, a single value is needed",
    ),
    "an open quote": (
        "csv",
        lambda p: p.write_text("t,x0,x1,x2\n" + "".join(f"{i},1,2,{'' if i != 11 else chr(34)}3\n" for i in range(40))),
        "line 13",
        'a quote is opened and never closed: 11,1,2,"3',
    ),
}  # fmt: skip


def test_one_bad_row_costs_one_row_and_no_window_goes_over_it(good):
    bad = bad_files(good, ROWS)
    assert good.preprocess() == 0
    check_rejects(good, bad)
    counts = good.manifest.counts
    assert (counts.assets, counts.rejected_assets) == (4 + len(bad), 0)
    assert (counts.rejected_rows, counts.rows_read) == (len(bad), 160 + 40 * len(bad))
    found = {asset: starts for split in ("train", "eval", "test") for asset, starts in good.windows(split).items()}
    length, stride = good.job["windows"]["length"], good.job["windows"]["stride"]
    for asset, place, _ in bad.values():
        row = 17 if place == "row 17" else 11
        assert sorted(found[asset]) == [s for s in range(0, 41 - length, stride) if not s <= row < s + length]


def test_too_many_bad_rows_end_the_job_with_the_limit_and_a_row(good, capfd):
    make = ROWS["an open quote"][1]
    make(good.files / "bad.csv")
    assert good.preprocess("limits.max_rejected_fraction=0.004") == 1
    (line,) = capfd.readouterr().err.strip().splitlines()
    assert "0.5% of the rows were rejected, limits.max_rejected_fraction is 0.4%" in line
    assert "bad.csv: line 13: a quote is opened and never closed" in line


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_no_reject(good, capfd):
    path = good.write("bad.parquet", make_table(40))
    path.chmod(0)
    assert good.preprocess() in (1, 2)
    (line,) = capfd.readouterr().err.strip().splitlines()
    assert f"{path}: no permission to read it" in line


def test_a_link_that_leads_nowhere(good):
    for name, target in {"bad": "nowhere.parquet", "itself": "itself.parquet"}.items():
        (good.files / f"{name}.parquet").symlink_to(target)
    os.mkfifo(good.files / "pipe.parquet")  # not a file: not part of the listing
    assert good.preprocess() == 0
    assert [(reject["asset"], reject["place"], reject["reason"]) for reject in good.rejects()] == [
        ("bad", "file", "is a link to nowhere.parquet, which leads nowhere"),
        ("itself", "file", "is a link to itself.parquet, which leads nowhere"),
    ]
    assert good.manifest.counts.files == 6


def test_a_bad_file_of_many_assets_is_rejected_without_a_name(good):
    for i in range(4):
        table = make_table(40, seed=i)
        good.write(f"m{i}.parquet", table.append_column("machine", pa.array([f"a{i}"] * 40)))
    (good.files / "bad.parquet").write_text("no")
    good.job["source"]["asset"] = {"column": "machine"}
    good.job["split"] = split_of(f"a{i}" for i in range(4))
    assert good.preprocess() == 0
    (reject,) = good.rejects()
    assert reject["asset"] is None
    assert reject["file"].endswith("bad.parquet")


def test_over_the_limit_nothing_is_published(good, capfd):
    truncated(good.files / "bad.parquet")
    assert good.preprocess("limits.max_rejected_fraction=0.1") == 1
    error = capfd.readouterr().err.strip()
    assert len(error.splitlines()) == 1
    assert "20.0% of the assets were rejected, limits.max_rejected_fraction is 10.0%" in error
    assert "bad.parquet" in error
    assert not (good.output / "manifest.json").exists()
    assert [reject["asset"] for reject in good.rejects()] == ["bad"]


MISTAKES = {
    "no file": (["source.files=/nowhere/*.parquet"], "source.files: no file matches /nowhere/*.parquet"),
    "no feature": (["source.features=[y*]"], "source.features: no column matches 'y*' (the files have: t, x0, x1, x2)"),
    "no time": (["source.time.column=when"], "source.time.column: 'when' is not a column of the files"),
    "no asset column": (["source.asset={column: machine}"], "source.asset.column: 'machine' is not a column"),
    "a duration with a unit on plain numbers": (["prepare.max_gap=5s"], "prepare.max_gap: '5s' has a unit"),
    "a step between two whole numbers": (["prepare.resample.every=0.5"], "resample.every: 0.5 is not a multiple of 1,"),
    "an unknown key": (["windows.strid=4"], "windows.strid: unknown key; did you mean 'stride'?"),
    "no pattern match": (["split={by: column, column: site, train: [a]}"], "split.column: 'site' is not a column"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_line_and_exit_2_before_any_work(good, capfd, case):
    overrides, message = MISTAKES[case]
    assert good.preprocess(*overrides) == 2
    error = capfd.readouterr().err.strip()
    assert len(error.splitlines()) == 1
    assert message in error
    assert not good.output.exists()


def test_an_output_that_holds_something_else_is_left_alone(good, capfd):
    good.output.mkdir()
    (good.output / "thesis.tex").write_text("years of work")
    assert good.preprocess() == 2
    assert "holds something else (thesis.tex)" in capfd.readouterr().err
    assert [path.name for path in good.output.iterdir()] == ["thesis.tex"]


def test_a_command_line_without_a_job_is_one_line(capfd):
    assert main(["--job", "nowhere.yaml"]) == 2
    assert main([]) == 2
    assert capfd.readouterr().err.splitlines() == [
        "nowhere.yaml: there is no such job file",
        "--job: is missing; give a job file, such as --job job.yaml",
    ]
