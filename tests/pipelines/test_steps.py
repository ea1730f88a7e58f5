"""Jobs with steps of the user's own: against files that hold what the steps make."""

import json
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from fleets import Fleet, make_table, read_labels, read_windows

CODE = """
import pyarrow as pa
import pyarrow.compute as pc

def power(table):
    product = pc.multiply(table["volt"], pc.cast(table["amp"], pa.float64()))
    return table.append_column("power", product).append_column("hot", pc.greater(product, 0))
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module own_power in a folder of packages; gone from this process afterwards."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "own_power.py").write_text(CODE)
    yield folder / "own_power.py"
    sys.modules.pop("own_power", None)


def tables(rows: int = 600) -> dict[str, pa.Table]:
    found = {}
    for number in range(4):
        plain = make_table(rows, seed=number, features=2).rename_columns(["t", "volt", "amp"])
        amps = pa.array([str(round(value, 3)) for value in plain["amp"].to_pylist()])  # text, as some loggers write
        found[f"m{number}"] = plain.set_column(2, "amp", amps)
    return found


def made(table: pa.Table) -> pa.Table:
    product = table["volt"].to_numpy().astype("f8") * np.array(table["amp"].to_pylist(), "f8")
    return table.append_column("power", pa.array(product)).append_column("hot", pa.array(product > 0))


JOB = [
    "source.features=[volt, power]",
    "label={column: hot, classes: [false, true]}",
    "train.task={name: classify}",
]


def with_steps(package) -> list[str]:
    return [
        *JOB,
        "prepare={steps: ['own_power:power'], step_columns: [amp]}",
        f"launch.preprocess.packages=['{package}']",
    ]


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A fleet whose files hold what the steps make."""
    fleet = Fleet(tmp_path_factory.mktemp("made"))
    for name, table in tables().items():
        fleet.write(f"{name}.parquet", made(table))
    assert fleet.preprocess(*JOB) == 0
    return fleet


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_steps_make_what_files_could_hold(fleet, other, own, suffix):
    """In units of a few rows, also of a mixed file."""
    for name, table in tables().items():
        fleet.write(f"{name}.{suffix}", table, **({"row_group_size": 100} if suffix == "parquet" else {}))
    assert fleet.preprocess(*with_steps(own)) == 0
    for split in ("train", "eval", "test"):
        found, wanted = read_windows(fleet.output, split), read_windows(other.output, split)
        assert found.keys() == wanted.keys()
        for asset in wanted:
            np.testing.assert_allclose(
                np.stack(list(found[asset].values())), np.stack(list(wanted[asset].values())), rtol=1e-4, atol=1e-5
            )
        assert read_labels(fleet.output, split, "label") == read_labels(other.output, split, "label")


@pytest.mark.slow
def test_assets_that_share_a_file(new_fleet, own):
    fleet, other = new_fleet("raw"), new_fleet("made")
    whole = [table.append_column("who", pa.array([name] * len(table))) for name, table in tables().items()]
    order = np.argsort(np.concatenate([table["t"].to_numpy() for table in whole]), kind="stable")
    mixed = pa.concat_tables(whole).take(pa.array(order))
    fleet.write("all.parquet", mixed)
    other.write("all.parquet", made(mixed))
    split = ["source.asset={column: who}", "split={by: time, train: 0.5, eval: 0.25, test: 0.25}"]
    assert fleet.preprocess(*with_steps(own), *split) == 0
    assert other.preprocess(*JOB, *split) == 0
    for name in ("train", "test"):
        found, wanted = read_windows(fleet.output, name), read_windows(other.output, name)
        assert found.keys() == wanted.keys()
        assert len(wanted) == 4
        for asset in wanted:
            assert found[asset].keys() == wanted[asset].keys()


def test_other_code_is_other_data(fleet, own):
    for name, table in tables(100).items():
        fleet.write(f"{name}.parquet", table)
    assert fleet.preprocess(*with_steps(own)) == 0
    first, windows = fleet.manifest.fingerprint, read_windows(fleet.output, "train")
    own.write_text(CODE.replace("return", "product = pc.multiply(product, pc.abs(product)); return"))
    sys.modules.pop("own_power")
    assert fleet.preprocess(*with_steps(own)) == 0
    assert fleet.manifest.fingerprint != first
    others = read_windows(fleet.output, "train")
    assert not any(np.array_equal(windows[name][0], others[name][0]) for name in windows)


THREADS = """
import time
import apache_beam as beam

class Power(beam.DoFn):
    def process(self, table):
        self.volt = table["volt"]
        time.sleep(0.02)
        yield table.append_column("power", self.volt)
"""


def test_each_thread_has_steps_of_its_own(fleet, own):
    own.write_text(THREADS)
    for number in range(8):
        fleet.write(f"m{number}.parquet", pa.table({"t": range(200), "volt": [float(number)] * 200}))
    overrides = ["source.features=[power]", "prepare={steps: ['own_power:Power'], scale: {how: none}}"]
    overrides += ["prepare.step_columns=[volt]", f"launch.preprocess.packages=['{own}']", "launch.preprocess.workers=8"]
    assert fleet.preprocess(*overrides) == 0
    for split in ("train", "eval", "test"):
        for asset, windows in read_windows(fleet.output, split).items():
            assert all((values == int(asset[1:])).all() for values in windows.values()), asset


LATE = """
import pyarrow as pa

def power(table):
    if max(table["t"].to_pylist()) > 1500:
        {late}
    return table.append_column("power", table["volt"])
"""


@pytest.mark.parametrize(
    ("late", "message"),
    [
        ("raise ValueError('no such pump')", "own_power:power fails on rows 1,500 to 1,999 of "),
        ("return table", "own_power:power gives no column 'power' on rows"),
        ("return table.append_column('power', pa.array(['x'] * len(table)))", "gives 'power' as string on rows"),
    ],
)
def test_a_mistake_that_is_met_late_is_one_line(fleet, own, capfd, late, message):
    own.write_text(LATE.format(late=late))
    for number in range(3):
        table = make_table(2000, seed=number, features=1).rename_columns(["t", "volt"])
        fleet.write(f"m{number}.parquet", table, row_group_size=500)
    job = ["source.features=[volt, power]", "prepare.steps=['own_power:power']"]
    assert fleet.preprocess(*job, f"launch.preprocess.packages=['{own}']") == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("prepare.steps: ")
    assert message in line
    assert not (fleet.output / "manifest.json").exists()


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (["prepare.step_columns=[amp]"], "step_columns: there are no steps that could get them"),
        (["prepare={steps: ['own_power:power'], step_columns: [ampere]}"], "no column matches 'ampere'"),
        (["prepare={steps: ['own_power:power']}"], "and more of prepare.step_columns"),
        (["prepare={steps: ['own_power']}"], "'own_power' must be module:function, such as my_package.steps:add_power"),
        (
            ["prepare={steps: ['own_power:power'], step_columns: [amp]}", "source.features=[volt, powr]"],
            "source.features: no column matches 'powr'; did you mean 'power'",
        ),
    ],
)
def test_mistakes_in_the_job(fleet, own, capfd, job, message):
    for name, table in tables(50).items():
        fleet.write(f"{name}.parquet", table)
    package = f"launch.preprocess.packages=['{own}']"
    assert fleet.preprocess("source.features=[volt, power]", package, *job) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert message in line


ONE_ASSET = """
import pyarrow as pa
import pyarrow.compute as pc

def power(table):
    factor = {"m0": 1.0, "m1": 2.0, "m2": 3.0, "m3": 4.0}[table["machine"][0].as_py()]
    on = pc.cast(pc.equal(table["state"], "on"), pa.float32())
    return table.append_column("power", pc.multiply(table["volt"], factor)).append_column("on", on)
"""


def test_a_step_gets_one_asset_and_columns_of_the_type_of_the_other_files(fleet, own):
    """Also when it is tried; a file without the column has nulls of text, as one of nulls alone has."""
    own.write_text(ONE_ASSET)
    parts = []
    for name, table in tables(300).items():
        states = pa.array(["on" if i % 3 else "off" for i in range(300)])
        parts.append(table.append_column("machine", pa.array([name] * 300)).append_column("state", states))
    fleet.write("a.parquet", pa.concat_tables(parts))
    for k, name in enumerate(("b", "c")):
        more = parts[0].slice(0, 100)
        more = more.set_column(0, "t", pa.array(range(1000 + 100 * k, 1100 + 100 * k)))
        at = more.schema.names.index("state")
        fleet.write(f"{name}.parquet", more.drop("state") if k else more.set_column(at, "state", pa.nulls(100)))
    fleet.job["source"] |= {"asset": {"column": "machine"}, "missing_columns": "missing", "features": ["power", "on"]}
    fleet.job["split"] = {"seed": 1}
    assert (
        fleet.preprocess(
            "prepare={steps: ['own_power:power'], step_columns: [volt, state], scale: {how: none}}",
            f"launch.preprocess.packages=['{own}']",
        )
        == 0
    )
    assert fleet.rejects() == []


@pytest.mark.parametrize("where", ["module", "step", "late"])
def test_a_step_that_exits_is_a_mistake(fleet, own, capfd, where):
    for name, table in tables(60).items():
        fleet.write(f"{name}.parquet", table)
    leave = "import sys; sys.exit(0)"
    late = f"    if table['t'][0].as_py() == 0 and table.num_rows < 20: {leave}\n"
    own.write_text(
        CODE + {"module": leave, "step": "", "late": ""}[where]
        if where == "module"
        else CODE.replace("    product", (f"    {leave}\n" if where == "step" else late) + "    product", 1)
    )
    if where == "late":
        fleet.write("m9.parquet", tables(15)["m0"])
    assert fleet.preprocess(*with_steps(own)) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("prepare.steps: ")
    assert "SystemExit: 0" in line


def test_a_change_in_another_package_of_the_job_is_other_data(fleet, tmp_path, capfd):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "one" / "stepping.py").write_text(
        "import pyarrow.compute as pc\nfrom helping import FACTOR\n"
        "def scaled(table):\n"
        "    return table.set_column(table.schema.names.index('x0'), 'x0', pc.multiply(table['x0'], FACTOR))\n"
    )
    for seed in range(3):
        fleet.write(f"m{seed}.parquet", make_table(60, seed=seed))
    packages = [str(tmp_path / "one" / "stepping.py"), str(tmp_path / "two" / "helping.py")]
    found = []
    for factor in (2.0, 1000.0):
        (tmp_path / "two" / "helping.py").write_text(f"FACTOR = {factor}\n")
        for name in ("stepping", "helping"):
            sys.modules.pop(name, None)
        assert fleet.preprocess("prepare.steps=['stepping:scaled']", f"launch.preprocess.packages={packages}") == 0
        found.append(fleet.manifest.fingerprint)
    assert found[0] != found[1]


def test_a_file_whose_column_is_of_another_kind_is_set_aside(fleet, own):
    for name, table in tables(100).items():
        fleet.write(f"{name}.parquet", table)
    odd = tables(100)["m0"]
    fleet.write("odd.parquet", odd.set_column(2, "amp", pa.array([1.5] * 100)))
    assert fleet.preprocess(*with_steps(own)) == 0
    (reject,) = fleet.rejects()
    assert (reject["asset"], reject["reason"]) == ("odd", "is double, the other files have string")


@pytest.mark.slow
def test_what_the_page_shows_is_true(root, tmp_path):
    """As a reader would do it: the files of the page in a folder, and one command."""
    python, job, dofn = re.findall(
        r"```(?:python|yaml)\n(.*?)```", (root / "docs" / "own_steps.md").read_text(), re.DOTALL
    )
    (tmp_path / "pump_steps.py").write_text(python + dofn)
    (tmp_path / "job.yaml").write_text(job)
    (tmp_path / "pumps").mkdir()
    for name, table in tables(100).items():
        volts, amps = table["volt"].to_pylist(), table["amp"].to_pylist()
        lines = [f"{t},{volt},{amp}" for t, (volt, amp) in enumerate(zip(volts, amps, strict=True))]
        (tmp_path / "pumps" / f"{name}.csv").write_text("\n".join(["t,volt,amp", *lines, ""]))
    command = [
        sys.executable,
        "-m",
        "beamfeed",
        "preprocess",
        "job.yaml",
        "--set",
        "split={train: 1, eval: 0, test: 0}",
    ]
    both = ["--set", "prepare.steps=['pump_steps:Calibrated', 'pump_steps:add_power']"]
    for more in ([], both):
        done = subprocess.run([*command, *more], cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "pumps-data" / "manifest.json").read_text())
    (values,) = [field for field in manifest["fields"] if field["name"] == "values"]
    assert values["columns"] == ["volt", "power"]
