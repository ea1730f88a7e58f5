"""Job files that include others."""

import pytest

from beamfeed.contract.config.load import load_job
from beamfeed.contract.errors import UserError

COMMON = """\
source: {kind: timeseries, files: "fleet/*.parquet", time: {column: cycle}, features: ["sensor_*"]}
windows:
  length: 30
  stride: 5
output: {path: "${JOB_DIR}/data"}
train:
  model: {name: recurrent_autoencoder, units: [64, 32]}
  workdir: out/model
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(name, text):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        return name

    write("common.yaml", COMMON)
    return write


def message(path, *overrides):
    with pytest.raises(UserError) as caught:
        load_job(path, overrides)
    return str(caught.value)


def test_the_including_file_wins_key_by_key(write):
    job = load_job(write("job.yaml", "name: a\ninclude: common.yaml\nwindows: {stride: 2}\n"
                                     "train: {model: {units: [8]}}\n"))  # fmt: skip
    assert (job.windows.length, job.windows.stride) == (30, 2)
    assert job.train.model.units == [8]  # a list is one value
    assert job.train.workdir == "out/model"


def test_of_several_the_last_wins(write):
    write("first.yaml", "name: first\nwindows: {stride: 7, length: 9}\n")
    write("second.yaml", "windows: {stride: 8}\nsplit: {train: 0.6, eval: 0.4, test: 0}\n")
    job = load_job(write("job.yaml", "include: [common.yaml, first.yaml, second.yaml]\nname: job\n"))
    assert (job.name, job.windows.length, job.windows.stride, job.split.eval) == ("job", 9, 8, 0.4)


def test_paths_count_from_the_file_that_includes(write, monkeypatch):
    write("shared/base/windows.yaml", "windows: {length: 4}\n")
    write("shared/base.yaml", "include: base/windows.yaml\nsplit: {seed: 3}\n")
    write("jobs/job.yaml", "include: [../common.yaml, ../shared/base.yaml]\nname: a\n")
    job = load_job("jobs/job.yaml")
    assert (job.windows.length, job.split.seed) == (4, 3)
    assert job.output.path == "jobs/data"  # of the job file, also where an included one says it
    monkeypatch.chdir("jobs")
    assert load_job("job.yaml").output.path == "./data"


def test_the_path_may_hold_a_variable(write, monkeypatch, tmp_path):
    monkeypatch.setenv("SITE", "common")
    assert load_job(write("job.yaml", "include: ${SITE}.yaml\nname: a\n")).windows.length == 30
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_job(write("job.yaml", "include: ~/common.yaml\nname: a\n")).windows.length == 30
    assert load_job(write("job.yaml", f"include: {tmp_path}/common.yaml\nname: a\n")).windows.length == 30


def test_overrides_come_last(write):
    job = load_job(write("job.yaml", "include: common.yaml\nname: a\n"), ["windows.stride=9"])
    assert (job.windows.length, job.windows.stride) == (30, 9)


def test_a_mistake_names_the_file_that_it_is_in(write):
    write("common.yaml", COMMON.replace("length: 30", "length: many"))
    job = write("job.yaml", "include: common.yaml\nname: a\n\nwindows: {strid: 2}\n")
    assert message(job).splitlines() == [
        "common.yaml:3: windows.length: 'many' is not allowed, it must be a whole number from 1 to 1,000,000",
        "job.yaml:4: windows.strid: unknown key; did you mean 'stride'? (allowed: length, stride)",
    ]
    assert load_job(job, ["windows={length: 8}"]).windows.length == 8


def test_the_place_of_a_key_that_is_replaced(write):
    job = write("job.yaml", "include: common.yaml\nname: a\nsource: 5\n")
    assert message(job).startswith("job.yaml:3: source: 5 is not allowed")
    job = write("job.yaml", "include: common.yaml\nname: a\ntrain:\n  model: {units: [0]}\n")
    assert message(job).startswith("job.yaml:4: train.model.units.0: 0 is not allowed")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: a\ninclude: none.yaml\n", "job.yaml:2: include: none.yaml: there is no such job file"),
        (
            "name: a\ninclude:\n- common.yaml\n- none.yaml\n",
            "job.yaml:4: include: none.yaml: there is no such job file",
        ),
        ("include: 5\n", "job.yaml:1: include: 5 is not allowed, it must be a path or a list of paths"),
        ("include: {a: b}\n", "job.yaml:1: include: {'a': 'b'} is not allowed, it must be a path or a list of paths"),
        ("include: [a, 5]\n", "job.yaml:1: include: ['a', 5] is not allowed, it must be a path or a list of paths"),
        ("include: job.yaml\n", "job.yaml:1: include: files include each other: job.yaml -> job.yaml"),
        ("include: one.yaml\n", "two.yaml:1: include: files include each other: one.yaml -> two.yaml -> one.yaml"),
        ("include: list.yaml\n", "list.yaml: holds [a]; a job file is a mapping with the keys name, source, "),
        ("include: twice.yaml\n", "twice.yaml:2: name is given twice"),
        ("include: unset.yaml\n", "unset.yaml:1: name: ${NOWHERE} is not set in the environment; "),
        ("includ: common.yaml\nname: a\n", "job.yaml:1: includ: unknown key; did you mean 'include'? (allowed: name, "),
    ],
)
def test_mistakes_are_one_line(write, monkeypatch, text, expected):
    monkeypatch.delenv("NOWHERE", raising=False)
    write("one.yaml", "include: two.yaml\n")
    write("two.yaml", "include: one.yaml\n")
    write("list.yaml", "- a\n")
    write("twice.yaml", "name: a\nname: b\n")
    write("unset.yaml", "name: ${NOWHERE}\n")
    found = message(write("job.yaml", text))
    assert expected in found
    assert found.splitlines()[0].startswith(expected[:6]) or "includ:" in expected


def test_include_belongs_at_the_top_of_a_file(write):
    with pytest.raises(UserError, match=r"--set include=a\.yaml: include: belongs into a job file, at its top"):
        load_job(write("job.yaml", "name: a\n"), ["include=a.yaml"])
    write("common.yaml", COMMON)
    merged = "base: &base {include: common.yaml}\n<<: *base\nname: a\n"
    assert "base: unknown key" in message(write("job.yaml", merged))
