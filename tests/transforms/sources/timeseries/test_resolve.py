"""What a job finds out of a sample of its files, and what it refuses to guess."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from fleets import make_table
from series import job_of, read_file, schema_of

from beamfeed.contract import storage
from beamfeed.contract.errors import UserError
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.timeseries.resolve import resolve_schema
from beamfeed.transforms.sources.timeseries.scan import scan_file

DAY = 86_400 * 10**9
START = 19_737 * DAY  # 2024-01-15
WHENS = START + np.arange(5) * (DAY + 10**9)


def texts(format_: str) -> list[str]:
    return pd.to_datetime(WHENS).strftime(format_).tolist()


def parquet(path, **columns):
    pq.write_table(pa.table({**columns, "x0": [0.0, 1, 2, 3, 4]}), path, row_group_size=2)
    return path


@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
@pytest.mark.parametrize(
    ("format_", "time"),
    [
        ("%Y-%m-%dT%H:%M:%SZ", {}),
        ("%Y-%m-%d %H:%M:%S", {"zone": "UTC"}),
        ("%d.%m.%Y %H:%M:%S", {}),
        ("%m/%d/%Y %I:%M:%S %p", {}),
        ("%d %B %Y, %H:%M:%S", {}),
        ("%H:%M:%S on %d/%m/%y", {"format": "%H:%M:%S on %d/%m/%y"}),
    ],
)
def test_parquet_with_times_as_text(tmp_path, text, format_, time):
    path = parquet(tmp_path / "a.parquet", t=pa.array(texts(format_)).cast(text))
    assert read_file(path, {"column": "t", **time}).ticks.tolist() == WHENS.tolist()


def test_parquet_with_date_and_time_in_two_columns(tmp_path):
    days, clocks = pa.array(WHENS // DAY, pa.int64()).cast(pa.int32()), WHENS % DAY
    typed = parquet(
        tmp_path / "typed.parquet",
        d=days.cast(pa.date32()),
        c=pa.array((clocks // 10**9).astype("i4"), pa.time32("s")),
    )
    text = parquet(tmp_path / "text.parquet", d=texts("%d.%m.%y"), c=texts("%H:%M:%S"))
    number = parquet(tmp_path / "number.parquet", d=[int(one) for one in texts("%Y%m%d")], c=texts("%H%M%S"))
    for path, time in (
        (typed, {}), (text, {}), (number, {"format": "%Y%m%d %H%M%S"}), (typed, {"zone": "Asia/Tokyo"}),
    ):  # fmt: skip
        ahead = 9 * 3600 * 10**9 if "zone" in time else 0
        assert read_file(path, {"column": ["d", "c"], **time}).ticks.tolist() == (WHENS - ahead).tolist()


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_year_month_day_and_hour_in_columns_of_their_own(tmp_path, suffix):
    whens = START + np.arange(5) * 3600 * 10**9
    moments = pd.to_datetime(whens)
    columns = {name: getattr(moments, name).to_numpy() for name in ("year", "month", "day", "hour")}
    table = pa.table({**columns, "x0": [0.0, 1, 2, 3, 4]})
    path = tmp_path / f"a.{suffix}"
    pq.write_table(table, path, row_group_size=2) if suffix == "parquet" else pa.csv.write_csv(table, path)
    assert read_file(path, {"column": list(columns)}).ticks.tolist() == whens.tolist()
    zone = read_file(path, {"column": list(columns), "zone": "Asia/Tokyo"}).ticks
    assert zone.tolist() == (whens - 9 * 3600 * 10**9).tolist()
    days = read_file(path, {"column": ["year", "month"]}).ticks
    assert set(days.tolist()) == {round(pd.Timestamp("2024-01-01").timestamp()) * 10**9}
    with pytest.raises(UserError, match=r"source.time.format: does not go with columns of numbers"):
        schema_of(path, {"column": list(columns), "format": "%Y %m %d %H"})


def test_times_of_one_zone(tmp_path):
    clock = pd.to_datetime(WHENS)
    plain = parquet(tmp_path / "plain.parquet", t=pa.array(clock.values))
    aware = parquet(tmp_path / "aware.parquet", t=pa.array(clock.tz_localize("Europe/Berlin")))
    utc = (WHENS - 3600 * 10**9).tolist()
    assert read_file(aware, "t").ticks.tolist() == utc
    both = schema_of([plain, aware, plain], {"column": "t", "zone": "Europe/Berlin"})
    assert read_file(plain, "t", both).ticks.tolist() == read_file(aware, "t", both).ticks.tolist() == utc
    mixed = schema_of([aware, plain, aware], "t")
    assert read_file(aware, "t", mixed).ticks.tolist() == utc
    with pytest.raises(BadInput, match=r"it has no zone, other times of the files have one; source.time.zone says"):
        read_file(plain, "t", mixed)
    with pytest.raises(BadInput, match="it has a zone, other times of the files have none"):
        read_file(aware, "t", schema_of([plain, aware, plain], "t"))


def test_rows_count_on_from_file_to_file(tmp_path):
    from beamfeed.transforms.sources.timeseries.plan import gather
    from beamfeed.transforms.sources.timeseries.read import read_chunks

    time = {"from": "row"}
    paths = [parquet(tmp_path / f"{name}.parquet") for name in "bac"]
    (tmp_path / "d.csv").write_text("x0\n0\n1\n2\n")
    job = job_of([*paths, tmp_path / "d.csv"], time, asset={"from": "path", "pattern": "(?P<asset>)"})
    files = [storage.stat(path) for path in job.source.patterns]
    schema = resolve_schema(job, files)
    assert schema.names == ["x0"]
    pieces = [piece for file in files for piece in scan_file(file, job.source.asset, schema, None, "")]
    asset = gather("all", pieces, "train", job, schema.time_units, merged=False)
    assert [piece.path.rpartition("/")[2][0] for piece in asset.pieces] == list("abcd")
    assert [(piece.first, piece.last) for piece in asset.pieces] == [(0, 4), (5, 9), (10, 14), (15, 17)]
    assert np.concatenate([chunk.time for chunk in read_chunks(asset, schema)]).tolist() == list(range(18))
    assert schema.time_units.duration(3, "prepare.max_gap") == 3


def test_the_sample_is_of_all_files(tmp_path):
    for i in range(63):
        (tmp_path / f"{i:02}.csv").write_text(f"t,{'x0' if i < 30 else 'x1'},y\n1,2,3\n")
    schema = schema_of(sorted(tmp_path.iterdir()), "t", features=["x*"])
    assert schema.features == ("x1",)


def test_names_that_look_like_globs(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"t": [1], "Temp [C]": [1.5], "Temp C": [2.5], "p*": [3.5], "x.1": [4.5]}), path)
    assert schema_of(path, "t", features=["Temp [C]", "p*", "x.1"]).features == ("Temp [C]", "p*", "x.1")
    assert read_file(path, "t", features=["Temp [C]", "p*", "x.1"]).values.tolist() == [[1.5, 3.5, 4.5]]
    assert schema_of(path, "t", features=["Temp*"]).features == ("Temp [C]", "Temp C")


def test_a_missing_column_as_missing_values(tmp_path):
    full, less = tmp_path / "full.parquet", tmp_path / "less.parquet"
    pq.write_table(make_table(4), full)
    pq.write_table(make_table(4), tmp_path / "also.parquet")
    pq.write_table(make_table(4).drop_columns(["x1"]), less)
    (tmp_path / "less.csv").write_text("t,x2,x0\n0,1,2\n")
    (tmp_path / "less.jsonl").write_text('{"t": 0, "x2": 1, "x0": 2}\n')
    with pytest.raises(BadInput, match="column x1: is missing; the file has t, x0, x2"):
        read_file(less, "t", schema_of(full, "t"))
    schema = schema_of([full, tmp_path / "also.parquet", less], "t", missing_columns="missing")
    assert schema.features == ("x0", "x1", "x2")
    found, whole = read_file(less, "t", schema).values, read_file(full, "t", schema).values
    assert np.isnan(found[:, 1]).all()
    np.testing.assert_array_equal(found[:, [0, 2]], whole[:, [0, 2]])
    for name in ("less.csv", "less.jsonl"):
        np.testing.assert_array_equal(read_file(tmp_path / name, "t", schema).values, [[2, np.nan, 1]])
    (tmp_path / "no_time.csv").write_text("x0,x1,x2\n1,2,3\n")
    with pytest.raises(BadInput, match="column t: is missing"):
        read_file(tmp_path / "no_time.csv", "t", schema)


def write_stream(table, path):
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, 3)


def write_file(table, path):
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, 3)


@pytest.mark.parametrize(
    "write", [write_file, write_stream, lambda table, path: pyarrow.feather.write_feather(table, path, chunksize=3)]
)
def test_arrow_files(tmp_path, write):
    table = make_table(10).append_column("who", pa.array(list("aaabbbccca")).dictionary_encode())
    path = tmp_path / "a.ARROW"
    write(table, str(path))
    found = read_file(path, "t", features=["x2", "x0"])
    assert found.ticks.tolist() == list(range(10))
    np.testing.assert_array_equal(found.values, np.stack([table["x2"], table["x0"]], 1))
    schema = schema_of(path, "t", asset={"column": "who"})
    job = job_of(path, "t", asset={"column": "who"})
    pieces = scan_file(storage.stat(str(path)), job.source.asset, schema, None, str(tmp_path))
    assert {piece.asset: (piece.rows, piece.first, piece.last) for piece in pieces} == {
        "a": (4, 0, 9), "b": (3, 3, 5), "c": (3, 6, 8),
    }  # fmt: skip


def test_arrow_files_that_are_broken(tmp_path):
    good = tmp_path / "good.arrow"
    write_file(make_table(10), str(good))
    schema = schema_of(good, "t")
    for content in (b"", b"ARROW1\0\0", good.read_bytes()[:-50], b"FEA1" + bytes(100), b"hello"):
        (tmp_path / "bad.arrow").write_bytes(content)
        with pytest.raises(BadInput, match=r"bad.arrow: file: "):
            read_file(tmp_path / "bad.arrow", "t", schema)


def bad_utf8() -> pa.Array:
    offsets, data = pa.array([0, 1, 2], pa.int32()).buffers()[1], pa.py_buffer(b"a\xff")
    return pa.StringArray.from_buffers(2, offsets, data)


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pa.array([["a"], ["b"]]), "column who: is list<element: string>, text is needed"),
        (pa.array([{"a": 1}, {"a": 2}]), "column who: is struct<a: int64>, text is needed"),
        (pa.array([1.5, 2.5]), "column who: is double, text is needed"),
        (pa.array([None, None]), "column who: is null, text is needed"),
        (pa.array(["a", None]), "row 1: the asset is missing"),
        (pa.array(["a", ""]), "row 1: the asset is missing"),  # as of a text
        (pa.array(["a", " "]), "row 1: the asset is missing"),
        (bad_utf8(), "row 1: the name of the asset is not UTF-8"),
        (pa.array([b"a", b"\xff"]), "column who: is binary and cannot be read as text"),
    ],
)
def test_assets_that_cannot_be_named(tmp_path, column, reason):
    pq.write_table(pa.table({"t": [1, 2], "x0": [1.0, 2.0], "who": ["a", "b"]}), tmp_path / "good.parquet")
    pq.write_table(pa.table({"t": [1, 2], "x0": [1.0, 2.0], "who": column}), tmp_path / "bad.parquet")
    job = job_of(tmp_path / "good.parquet", "t", asset={"column": "who"})
    schema = schema_of(tmp_path / "good.parquet", "t", asset={"column": "who"})
    with pytest.raises(BadInput) as error:
        scan_file(storage.stat(str(tmp_path / "bad.parquet")), job.source.asset, schema, None, str(tmp_path))
    assert str(error.value).partition("bad.parquet: ")[2].startswith(reason)


@pytest.mark.parametrize("type_", [pa.string_view(), pa.large_string(), pa.binary(), pa.int32(), pa.bool_()])
def test_assets_of_any_type_that_names(tmp_path, type_):
    path = tmp_path / "a.arrow"
    names = {pa.int32(): [7, 8], pa.bool_(): [True, False]}.get(type_, ["a", "b"])
    write_file(pa.table({"t": [1, 2], "x0": [1.0, 2.0], "who": pa.array(names, type_)}), str(path))
    job = job_of(path, "t", asset={"column": "who"})
    schema = schema_of(path, "t", asset={"column": "who"})
    pieces = scan_file(storage.stat(str(path)), job.source.asset, schema, None, str(tmp_path))
    assert [piece.asset for piece in pieces] == sorted(str(name).lower() for name in names)


def write_texts(folder, texts_):
    paths = []
    for number, text in enumerate(texts_):
        paths.append(folder / f"{number}.csv")
        paths[-1].write_text(text)
    return paths


REFUSED = {
    "a date of two readings": (["t,x0\n01/02/2024,1\n03/04/2024,2\n"], "t", {},
                               "source.time.column: 't': '03/04/2024' may begin with the day or the month; "
                               "give source.time.format"),
    "a date of another reading": (["t,x0\n24-01-31,1\n24-02-01,2\n"], "t", {},
                                  "'24-02-01' may begin with the day or the year; give source.time.format, such as "
                                  "'%d/%m/%Y %H:%M:%S' or '%y-%m-%d'"),
    "two orders": (["t,x0\n31/01/2024,1\n", "t,x0\n01/31/2024,1\n"], "t", {},
                   "0.csv and the month in .*1.csv; source.time.format says which is right"),
    "a number of two readings": (["t;x0\n1;1.234\n"], "t", {},
                                 "0.csv: '1.234' may have thousands or decimals; source.csv.decimal says which"),
    "no time": (["t,x0\nnoon,1\nlater,2\n"], "t", {}, "'t' holds text such as 'noon'; give source.time.format"),
    "no such column": (["Time;x0\n1;1,5\n"], "time", {},
                       r"source.time.column: 'time' is not a column of the files; did you mean 'Time'\? "
                       r"\(they have: Time, x0; read with delimiter ';', decimal ','\)"),
    "not split": (["datetime;Accel\n1;2\n"], "datetime", {"csv": {"delimiter": "comma"}},
                  r"'datetime' is not a column of the files.*\(they have: datetime;Accel\)"),
    "a column of text": (["t,x0\n1,2\n2,abc\n"], "t", {"features": ["x0"]},
                         r"'x0' is string \(line 3 of .*0.csv: 'abc' is not a number"),
    "two columns of a name": (["t,x0,x0\n1,2,3\n"], "t", {}, "0.csv has 2 columns of the name 'x0'"),
    "a zone of numbers": (["t,x0\n1,2\n"], {"column": "t", "zone": "UTC"}, {}, "'t' is int64, which is not a date"),
    "names that do not fit": (["1,2,3\n"], "t", {"csv": {"names": ["t", "x0"]}},
                              "line 1: has 3 values, and source.csv.names 2 names"),
    "another encoding": (["t,x0,ü\n1,2,3\n"], "t", {"csv": {"encoding": "ascii"}},
                         "line 1: is not ascii: byte 0xc3; see source.csv.encoding"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_guessed(tmp_path, case):
    contents, time, source, message = REFUSED[case]
    with pytest.raises(UserError, match=message) as error:
        schema_of(write_texts(tmp_path, contents), time, **source)
    assert "\n" not in str(error.value)


def test_files_that_do_not_tell_are_read_as_those_that_do(tmp_path):
    paths = write_texts(tmp_path, ["t;x0\n01/02/2024;1,234\n", "t;x0\n31/01/2024;12,5\n", "t;x0\n02/02/2024;1\n"])
    schema = schema_of(paths, "t")
    assert read_file(paths[0], "t", schema).values.tolist() == [[np.float32(1.234)]]
    assert read_file(paths[0], "t", schema).ticks.tolist() == [(19_737 + 17) * DAY]
    assert schema.remarks == ("source.csv: delimiter ';', decimal ','", "source.time: times are day.month.year")


def daily(format_):
    days = (np.datetime64("2024-01-20") + np.arange(24)).tolist()
    return [f"t,x0\n{day.strftime(format_)} 00:00,1\n{day.strftime(format_)} 23:00,2\n" for day in days]


def test_logs_of_one_day_per_file(tmp_path):
    paths = write_texts(tmp_path, daily("%d/%m/%y"))
    schema = schema_of(paths, "t")
    assert schema.remarks == ("source.time: times are day.month.year",)
    assert read_file(paths[0], "t", schema).ticks[0] == 19_742 * DAY
    with pytest.raises(UserError, match=r"'24\.02\.12 23:00' may begin with the day or the year; give"):
        schema_of(write_texts(tmp_path, daily("%y.%m.%d")), "t")


def test_what_the_user_gave_is_not_guessed(tmp_path):
    (path,) = write_texts(tmp_path, ["t;x0\n1;1.234\n"])
    assert read_file(path, "t", csv={"decimal": "."}).values.tolist() == [[np.float32(1.234)]]
    with pytest.raises(UserError, match=r"'1.234' is not a number; source.csv.decimal is ',', thousands null"):
        read_file(path, "t", csv={"decimal": ",", "thousands": None}, features=["x0"])
    assert read_file(path, "t", csv={"thousands": "."}).values.tolist() == [[1234]]
    (path,) = write_texts(tmp_path, ["t,x0\n01/02/2024,1\n"])
    assert read_file(path, {"column": "t", "format": "%m/%d/%Y"}).ticks.tolist() == [(19_737 - 13) * DAY]
    (path,) = write_texts(tmp_path, ["a line\nt,x0\n1,2\n3,4\n"])
    assert read_file(path, "f0", csv={"skip_lines": 2, "header": False}, features=["f1"]).values.tolist() == [[2], [4]]
    assert read_file(path, "u", csv={"skip_lines": 1, "names": ["u", "v"], "header": True},
                     features=["v"]).values.tolist() == [[2], [4]]  # fmt: skip
    assert read_file(path, "t", csv={"skip_after_header": 1}).values.tolist() == [[4]]


def test_a_column_of_one_file_is_a_feature_where_it_is_named(tmp_path):
    full = parquet(tmp_path / "a.parquet", t=[1, 2, 3, 4, 5], x1=[1.0] * 5, odd=[2.0] * 5)
    bare = parquet(tmp_path / "b.parquet", t=[1, 2, 3, 4, 5])
    for features, columns in ((["x0", "x1"], ("x0", "x1")), (["x*"], ("x1", "x0")), (["x0", "odd"], ("x0", "odd"))):
        schema = schema_of([full, bare, bare], "t", features=features, missing_columns="missing")
        assert schema.features == columns
    found = read_file(bare, "t", schema, features=["x0", "odd"], missing_columns="missing")
    assert np.isnan(found.values[:, 1]).all()
    assert found.values[:, 0].tolist() == [0, 1, 2, 3, 4]
    strict = schema_of([full, bare, bare], "t", features=["x0", "x1"])
    assert strict.features == ("x0", "x1")
    with pytest.raises(BadInput, match="column x1: is missing"):
        read_file(bare, "t", strict, features=["x0", "x1"])
    assert schema_of([full, bare, bare], "t").features == ("x0",)  # a glob takes what most files have
    with pytest.raises(UserError, match="no column matches 'x9'"):
        schema_of([full, bare], "t", features=["x9"], missing_columns="missing")


def test_months_and_quarters(tmp_path):
    for name, column, months in (
        ("ym", ["2024-01", "2024-02", "2024-03", "2024-04", "2024-05"], (1, 2, 3, 4, 5)),
        ("q", ["2024-Q1", "2024-Q2", "2024-Q3", "2024-Q4", "2025-Q1"], (1, 4, 7, 10, 13)),
        ("my", ["Jan 2024", "Feb 2024", "Mar 2024", "Apr 2024", "May 2024"], (1, 2, 3, 4, 5)),
    ):
        starts = [(np.datetime64("2024-01") + month - 1).astype("M8[ns]").astype("i8") for month in months]
        as_parquet = parquet(tmp_path / f"{name}.parquet", t=column)
        as_csv = tmp_path / f"{name}.csv"
        as_csv.write_text("t,x0\n" + "".join(f"{when},{row}\n" for row, when in enumerate(column)))
        for path in (as_parquet, as_csv):
            assert read_file(path, "t").ticks.tolist() == starts
    numbers = parquet(tmp_path / "n.parquet", t=[202401, 202402, 202403, 202404, 202405])
    found = read_file(numbers, {"column": "t", "format": "%Y%m"}).ticks
    assert found[1] == np.datetime64("2024-02").astype("M8[ns]").astype("i8")


def test_a_year_out_of_range_is_told_as_such(tmp_path):
    told = "is out of range: times are from 1824 to 2115"
    for far in ("0001-01-01", "9999-12-31"):
        days = ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04", far]
        typed = parquet(tmp_path / "us.parquet", t=pa.array(np.array(days, "M8[us]")))
        text = parquet(tmp_path / "text.parquet", t=days)
        csv = tmp_path / "a.csv"
        csv.write_text("t,x0\n" + "".join(f"{day},1\n" for day in days))
        for path in (typed, text, csv):
            with pytest.raises(BadInput, match=told) as error:
                read_file(path, "t")
            assert far in str(error.value)


def test_an_asset_is_one_however_a_file_writes_its_number(tmp_path):
    """pandas makes 7.0 of 7 where others are missing."""
    names = []
    for name, machine in (("a", "7"), ("b", "7.0")):
        path = tmp_path / f"{name}.csv"
        path.write_text(f"t,x0,machine\n0,1,{machine}\n1,2,{machine}\n")
        schema = schema_of(path, "t", asset={"column": "machine"})
        pieces = scan_file(storage.stat(str(path)), job_of(path, "t").source.asset, schema, None, str(tmp_path))
        names += [piece.asset for piece in pieces]
    assert names == ["7", "7"]
