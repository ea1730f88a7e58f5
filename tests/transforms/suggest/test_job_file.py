"""Whole job files for folders, and what cannot be read."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from sampling import sample
from series import read_file

from beamfeed.contract.config.load import parse_job
from beamfeed.contract.errors import UserError
from beamfeed.transforms.suggest.job_file import suggest
from beamfeed.transforms.suggest.options import Options

HERE = Path(__file__).parent
ODD = HERE.parent / "sources" / "readers" / "odd"
ODD_KEPT = [ODD / name for name in ("latin_footer.txt", "lines.jsonl", "us.csv")]
START = np.datetime64("2024-01-01T00:00:00", "ms")


def times(rows, first=0, step=1000):
    return START + (first + np.arange(rows)) * np.timedelta64(step, "ms")


def values(rows, seed=0):
    return np.random.default_rng(seed).normal(size=rows).round(3)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to write to, which is the current one, so that paths in job files are short."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def job(path):
    return parse_job(suggest(path).text)


def check_golden(name, text):
    """Compares with golden/NAME; BEAMFEED_WRITE_GOLDEN=1 writes it anew."""
    path = HERE / "golden" / name
    if os.environ.get("BEAMFEED_WRITE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


def test_the_text_for_a_fleet(folder):
    for k in range(12):
        pumps = values(400, k)
        pumps[50:53] = np.nan
        at = times(400)
        at[300:] += np.timedelta64(1, "h")
        write(folder / f"pumps/pump-{k:02d}.parquet", timestamp=at, flow=pumps, bar=values(400, 100 + k),
              valve=np.full(400, 100.0), serial=[f"P{k}"] * 400, fault=np.arange(400) > 390)  # fmt: skip
    check_golden("pumps.yaml", suggest("pumps", "pumps.yaml").text)


def test_the_text_for_a_table(folder):
    rows = 300
    lines = [
        f"{i + 1};{i % 2};{values(rows)[i]:.2f}".replace(".", ",") + f";{'abc'[i % 3]};all the same words {i};{i % 7}"
        for i in range(rows)
    ]
    (folder / "orders.csv").write_text("order_id;fraud;amount;kind;note;fraud_score\n" + "\n".join(lines) + "\n")
    check_golden("orders.yaml", suggest("orders.csv").text)


def test_a_text_beside_the_data_is_left_out(folder):
    for k in range(4):
        (folder / f"{k}.csv").write_text("t,x\n" + "".join(f"{i},{i % 7}.5\n" for i in range(50)))
    (folder / "README.txt").write_text("These files are from the plant.\n\nAsk Mr. Meier, if you want more of them.\n")
    found = job(".")
    assert (found.source.files, found.source.time.column) == ("*.csv", "t")
    assert "# Left out: *.txt, which hold something else." in suggest(".").text
    for k in range(4):
        (folder / f"{k}.tsv").write_text("t\tx\n" + "".join(f"{i}\t{i % 7}.5\n" for i in range(50)))
    (folder / "README.txt").unlink()
    found = job(".").source  # of the same columns: both are read
    assert found.files == ["*.csv", "*.tsv"]
    assert found.asset.pattern == "(?P<asset>[^/]+)$"


def test_folders_name_the_assets(folder):
    for machine in "ABC":
        for day in range(3):
            write(folder / f"a/{machine}/2024-01-0{day + 1}.parquet", when=times(100, 100 * day), x=values(100))
            write(
                folder / f"b/machine={machine}/date=0{day + 1}/part-0.parquet",
                when=times(100, 100 * day),
                x=values(100),
            )
    assert job("a").source.asset.pattern == "(?P<asset>[^/]+)/[^/]+$"
    assert job("b").source.asset.column == "machine"


def test_a_column_names_the_assets(folder):
    write(folder / "a.parquet", time=np.repeat(times(50), 3), machine_id=["p1", "p2", "p3"] * 50, x=values(150))
    assert job("a.parquet").source.asset.column == "machine_id"


def test_a_file_without_names_whose_first_column_is_a_unit(folder):
    lines = [f"{unit} {cycle} {values(30, unit)[cycle]}" for unit in range(6) for cycle in range(30)]
    (folder / "a.txt").write_text("\n".join(lines) + "\n")
    found = job("a.txt").source
    assert (found.asset.column, found.time.column, found.features) == ("f0", "f1", ["f2"])


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        (lambda i: 1_700_000_000 + 5 * i, {"column": "ts", "unit": "s"}),
        (lambda i: 1_700_000_000_000 + 250 * i, {"column": "ts", "unit": "ms"}),
        (lambda i: f"202402{i % 28 + 1:02d}", {"column": "ts", "format": "%Y%m%d"}),
        (lambda i: f"{i % 9 + 1:02d}/03/2024", {"column": "ts", "format": "%d/%m/%Y"}),  # either way; days follow
        (lambda i: f"03/{i % 9 + 1:02d}/2024", {"column": "ts", "format": "%m/%d/%Y"}),
        (lambda i: f"{i % 28 + 1:02d}.02.2024 10:00", {"column": "ts"}),
    ],
)
def test_how_times_are_written(folder, stamp, expected):
    (folder / "a.csv").write_text("ts,x\n" + "".join(f"{stamp(i)},{i % 5}.25\n" for i in range(9)))
    assert job("a.csv").source.time.model_dump(by_alias=True, exclude_none=True) == expected


@pytest.mark.parametrize(
    ("head", "unit"),
    [
        ("t;x\ns;bar\n", "s"),
        ("t;x\n[ms];[bar]\n", "ms"),
        ("Time (min);x\n", "m"),
        ("elapsed_hours;x\n", "h"),
        ("t;x\n", None),
        ("t;x\ncount;bar\n", None),
    ],
)
def test_the_unit_of_numbers(folder, head, unit):
    (folder / "a.csv").write_text(head + "".join(f"{i};{i % 7}.5\n" for i in range(50)))
    assert job("a.csv").source.time.unit == unit


def test_numbers_that_could_be_read_in_two_ways_are_marked(folder):
    (folder / "a.csv").write_text("t;x\n" + "".join(f"{i};1.{200 + 7 * i}\n" for i in range(20)))
    text = suggest("a.csv").text
    assert job("a.csv").source.csv.decimal == "."
    assert "CHECK THIS: a.csv: '1.200' may have thousands or decimals" in text
    (folder / "b.csv").write_text("t;x\n" + "".join(f"{i};1,{200 + 7 * i}\n" for i in range(20)))
    assert (job("b.csv").source.csv.decimal, job("b.csv").source.features) == (",", ["x"])


def test_rows_count_where_no_column_is_a_time(folder):
    for k in range(3):
        write(folder / f"a/{k}.parquet", x=values(100, k), y_axis=values(100, 9 + k))
    assert job("a").source.time.from_ == "row"


def test_cases_with_a_label_are_a_table_though_they_have_times(folder):
    rng = np.random.default_rng(1)
    rows = 500
    when = START + np.sort(rng.integers(0, 10**7, rows)).astype("timedelta64[ms]")
    customers, flags = rng.integers(0, 50, rows), rng.integers(0, 2, (2, rows))
    write(folder / "a.parquet", customer_id=customers, order_id=rng.integers(0, 10**6, rows),
          when=when, amount=values(rows), target=flags[0], target_kind=flags[1])  # fmt: skip
    found = job("a.parquet")
    assert (found.source.kind, found.label[0].column, found.train.task.name) == ("table", "target", "classify")
    assert set(found.features) == {"when", "amount"}  # not ids, nor what may tell the label
    (line,) = [line for line in suggest("a.parquet").text.splitlines() if "eval_from" in line]
    split = yaml.safe_load(line.removeprefix("#"))["split"]
    assert np.datetime64("2024-01-01") <= np.datetime64(split["eval_from"]) < np.datetime64(split["test_from"])


def test_columns_of_any_type(folder):
    rows = 300
    columns = {
        "target": np.arange(rows) % 3,
        "x": values(rows),
        "day": np.datetime64("2024-01-01") + np.random.default_rng(0).permutation(rows),
        "clock": pa.array([3600] * 299 + [0], pa.time32("s")),
        "span": pa.array(np.arange(rows), pa.duration("s")),
        "raw": [b"\xff%d" % (i % 9) for i in range(rows)],
        "kinds": pa.array(["a", "b"] * 150).dictionary_encode(),
        "some": [[1, 2]] * rows,
        "none": pa.nulls(rows),
        "big": np.random.default_rng(1).integers(2**62, 2**63, rows).astype("u8"),
        "endless": np.full(rows, np.inf),
        "a b": values(rows),
        "a-b": values(rows),
    }
    write(folder / "a.parquet", **columns)
    found = job("a.parquet")
    assert list(found.features) == ["x", "day", "kinds", "big", "a b"]
    assert found.features["day"].type == "date"
    write(folder / "b.parquet", **{name: one for name, one in columns.items() if name not in ("target", "kinds")})
    assert job("b.parquet").source.kind == "timeseries"  # rows out of order are sorted


def test_a_label_of_many_numbers_is_regressed(folder):
    write(folder / "a.parquet", x=values(300), target=values(300, 1))
    assert job("a.parquet").train.task.name == "regress"


def test_without_a_label_the_job_preprocesses_alone(folder):
    write(folder / "a.parquet", kind=["a", "b", "c"] * 100, x=values(300))
    found = suggest("a.parquet")
    assert not found.trains
    assert parse_job(found.text).train is None
    assert "#   beamfeed preprocess job.yaml\n" in found.text


def test_the_first_line_may_be_a_row(folder):
    (folder / "a.tsv").write_text('ham\thello "you there\nspam\twin 3" of it\n' + "ham\tagain and again\n" * 9)
    found = job("a.tsv").source
    assert (found.csv.header, list(job("a.tsv").features)) == (False, ["f0", "f1"])


def test_a_word_above_numbers_is_a_name_also_where_another_name_is_a_value(folder):
    rows = "".join(f"{i},{('not', 'hispanic')[i % 2]},{1.5 + i % 7 / 10}\n" for i in range(40))
    (folder / "a.csv").write_text("row,hispanic,height\n" + rows)
    found = job("a.csv")
    assert found.source.csv.header == "auto"
    assert list(found.features) == ["hispanic", "height"]


@pytest.mark.parametrize("index", ["", ","], ids=["plain", "with an index"])
def test_numbers_from_0_on_in_the_first_line_are_names(folder, index):
    rows = "".join(f"{i if index else ''}{index}{i % 9},2.5,{i / 7:.3f},{i % 5}\n" for i in range(40))
    (folder / "a.csv").write_text(f"{index}0,1,2,3\n{rows}")
    text = suggest("a.csv", options=Options(label="2")).text
    assert "# The first line counts the columns, so it is taken for names of columns." in text
    for others in ("3,2,0,1\n" * 40, ""):  # a row by chance
        (folder / "a.csv").write_text(f"0,1,2,3\n{others}")
        assert "counts the columns" not in suggest("a.csv").text


def test_nothing_is_written_among_the_files(folder):
    for where, expected in (("out/fleet", "out/fleet-job/data"), ("out", "_out/out/data"), ("in", "out/in/data")):
        write(folder / where / "a.parquet", t=np.arange(50), x=values(50))
        assert job(where).output.path == expected
        (folder / where / "a.parquet").unlink()


def test_columns_that_are_mostly_missing_are_left_out(folder):
    some = values(100)
    some[:80] = np.nan
    for k in range(5):
        write(folder / f"a/{k}.parquet", t=np.arange(100), x=values(100), often=some)
    assert job("a").source.features == ["x"]
    assert "often (80% missing)" in suggest("a").text


@pytest.mark.parametrize("seed", range(20))
def test_files_in_random_dialects(folder, seed):
    """The job reads each time as it was written; a file of a few rows may be taken for a table."""
    place = ODD.parent / "test_random_dialects.py"
    spec = importlib.util.spec_from_file_location("random_dialects", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    content, _, ticks, _ = module.write(np.random.default_rng(1000 + seed))
    (folder / "a.csv").write_bytes(content)
    source = yaml.safe_load(suggest("a.csv").text)["source"]
    if source["kind"] == "table":
        assert len(ticks) < 10
        return
    found = read_file(Path("a.csv"), source["time"], csv=source.get("csv", {}), features=source["features"])
    second = 10**9 if source["time"].get("unit") == "s" else 1  # of numbers, where a line of units says so
    np.testing.assert_array_equal(found.ticks, ticks * second)


def odd_windows(path, job):
    """Of a file of three rows, or four; windows of series are of two."""
    rows = 4 if path.name == "nulls.csv" else 3
    return {"train": rows if job.source.kind == "table" else rows - 1, "eval": 0, "test": 0}


@pytest.mark.parametrize("path", sorted(ODD.iterdir()), ids=lambda path: path.name)
def test_a_job_for_each_odd_file_reads_all_its_rows(path):
    from beamfeed.contract.storage import stat
    from beamfeed.pipelines.job_check import check_job
    from beamfeed.transforms.sources.timeseries.resolve import resolve_schema

    suggestion = suggest(str(path))
    found = parse_job(suggestion.text)
    splits = check_job(suggestion.to_try).manifest.splits
    assert {name: split.windows for name, split in splits.items()} == odd_windows(path, found)
    if path.name == "japanese.csv":  # its time cannot be read as it is
        assert found.source.kind == "table"
        return
    if path.name == "one_column.csv":
        assert (found.source.kind, len(found.source.features)) == ("timeseries", 1)
        return
    assert set(found.source.features) <= {"Temp", "Pressure", "Temp [°C]", "Druck", "Druck µ", "f1", "f2"}
    assert len(found.source.features) == 2
    schema = resolve_schema(found, [stat(str(path))])
    assert schema.features == tuple(found.source.features)


def message(path):
    with pytest.raises(UserError) as caught:
        suggest(path)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_mistakes_are_one_line(folder):
    (folder / "empty").mkdir()
    assert message("nowhere") == "nowhere: there is no such file or folder"
    assert message("nowhere/*.csv") == "nowhere/*.csv: no file matches"
    assert message("empty").startswith("empty: holds no file that can be read (suffixes: .parquet ")
    (folder / "empty/_a.csv").write_text("a\n1\n")
    assert message("empty").endswith("; _a.csv is left out, as names that begin with _ or . are: name it in full")
    (folder / "broken").mkdir()
    (folder / "broken/a.parquet").write_bytes(b"this is none")
    assert message("broken").startswith("broken: none of the sampled files can be read, such as broken/a.parquet:")
    write(folder / "mixed/a.parquet", t=np.arange(9), x=values(9))
    (folder / "mixed/b.csv").write_text("name,street,town\na,b,c\nd,e,f\n")
    assert message("mixed") == (
        "mixed: holds files of different columns: mixed/a.parquet has t, x, mixed/b.csv has name, street, town; "
        "name those that belong together, such as 'beamfeed init mixed/*.parquet'"
    )
    write(folder / "ids/a.parquet", order_id=np.arange(50), same=np.ones(50))
    assert message("ids").startswith("ids/*.parquet: no column that a model could learn from was found (order_id: ")
    write(folder / "rows/a.parquet", t=pa.array([], pa.int64()), x=pa.array([], pa.float32()))
    assert message("rows").startswith("rows: none of the files that were looked at holds rows")


def test_real_data(data):
    turbofan = job(str(data / "turbofan"))
    assert turbofan.source.time.column == "cycle"
    assert len(turbofan.source.features) == 17  # of 24, seven are constant
    assert job(str(data / "turbofan_csv")).source.features == turbofan.source.features
    fraud = job(str(data / "fraud"))
    assert (fraud.label[0].column, fraud.source.kind) == ("TX_FRAUD", "table")
    assert len(fraud.features) == 16  # an amount, a time, two flags and twelve windows


@pytest.mark.slow
def test_real_tables_without_names(data):
    assert job(str(data / "sms")).features["f1"].type == "text"
    assert len(job(str(data / "census")).features) == 15


def test_it_loads_neither_beam_nor_tensorflow(folder):
    write(folder / "a.parquet", t=np.arange(50), x=values(50))
    code = (
        "import sys; from beamfeed.pipelines.suggest_job import main; main(['a.parquet', '--out', 'job.yaml']); "
        "print([m for m in ('apache_beam', 'tensorflow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert yaml.safe_load((folder / "job.yaml").read_text())["source"]["time"] == {"column": "t"}


def preprocess(text):
    """Preprocesses a job as it is and returns the windows of its splits."""
    from beamfeed.contract.dataset.manifest import find_manifest
    from beamfeed.pipelines.preprocess import main

    Path("job.yaml").write_text(text)
    assert main(["--job", "job.yaml"]) == 0
    manifest = find_manifest(parse_job(text).output.path)
    return {name: split.windows for name, split in manifest.splits.items()}


def test_a_small_fleet_is_preprocessed_as_it_is(folder):
    for k in range(6):
        write(folder / f"pumps/pump-{k}.parquet", timestamp=times(120), flow=values(120, k), bar=values(120, 9 + k))
    text = suggest("pumps").text
    windows = preprocess(text)
    assert windows["train"] >= parse_job(text).train.feed.batch_size > 1
    assert windows["eval"]
    assert windows["test"]


@pytest.mark.slow
@pytest.mark.parametrize("path", sample(sorted(ODD.iterdir()), kept=ODD_KEPT), ids=lambda path: path.name)
def test_odd_files_are_preprocessed_as_they_are(folder, path):
    text = suggest(str(path)).text
    assert preprocess(text) == odd_windows(path, parse_job(text))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    sample(
        ["turbofan", "turbofan_csv", "fraud", "census", "sms", "turbofan_test_FD001.txt"],
        ["turbofan_csv", "fraud", "sms"],
    ),
)
def test_real_data_are_preprocessed_as_they_are(folder, data, name):
    text = suggest(str(data / name)).text
    windows = preprocess(text)
    assert all(windows.values())
    train = parse_job(text).train
    assert train is None or windows["train"] >= train.feed.batch_size


def test_a_name_of_two_columns_is_left_out_and_told(folder):
    text = "x,y,x,label\n" + "".join(f"{at},{at / 2},{at},{'ab'[at % 2]}\n" for at in range(60))
    (folder / "a.csv").write_text(text)
    written = suggest("a.csv", name="my job.yaml")
    assert "# Left out: 'x', as several columns of a file have that name." in written.text
    assert written.command == "beamfeed run 'my job.yaml'"


def test_a_clock_with_dots_stands_beside_its_date(folder):
    rows = "".join(f"{13 + at // 24:02d}/03/2004;{at % 24:02d}.00.00;{at / 7:.3f};{at % 5}\n" for at in range(200))
    (folder / "a.csv").write_text("Date;Time;CO;NO\n" + rows)
    found = job("a.csv")
    assert found.source.kind == "timeseries"
    assert found.source.time.column == ["Date", "Time"]
