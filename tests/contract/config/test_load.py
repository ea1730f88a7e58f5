"""What is said of a mistake in a job file."""

import pytest
from job_text import TEXT, complaint

from beamfeed.contract.config.job import Job, TrainingJob
from beamfeed.contract.config.load import load_job, parse_as, parse_job
from beamfeed.contract.errors import UserError


def test_defaults_and_overrides():
    job = parse_job(TEXT, ["windows.stride=4", "source.asset={column: machine}", "train.early_stopping.patience=5"])
    assert isinstance(job, Job)
    assert (job.windows.length, job.windows.stride) == (30, 4)
    assert job.source.asset.column == "machine"
    assert job.train.early_stopping.patience == 5
    assert job.output.records == "segments"
    for path in ("fleet #2/*.csv", "in[1]/a.csv", "100% ü/b?.csv", "'fleet #2'", '"fleet #2"'):
        assert parse_job(TEXT, [f"source.files={path}"]).source.files == path.strip("'\"")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("stride: 1", "strid: 1", "job.yaml:7: windows.strid: unknown key; did you mean 'stride'? "
                                  "(allowed: length, stride)"),
        ("stride: 1", "stride: 0", "job.yaml:7: windows.stride: 0 is not allowed, it must be a whole number"),
        ("length: 30", "length: many", "job.yaml:7: windows.length: 'many' is not allowed, it must be a whole number "
                                            "from 1 to 1,000,000"),
        ("kind: timeseries", "kind: timeserie", "job.yaml:2: source: kind 'timeserie' is not allowed; did you mean "
                                                "'timeseries'? (allowed: timeseries, table, image, array)"),
        ("name: turbofan", "nam: turbofan", "job.yaml:1: nam: unknown key; did you mean 'name'?"),
        ("train: 0.8", "train: 0.9", "job.yaml:8: split: train + eval + test is 1.1, it must be 1"),
        ("train: 0.8", "by: column", "job.yaml:9: split: by: column needs 'column: <name>'"),
        ("workdir: out/model", "workdir: out/data", "output.path and train.workdir are the same folder: out/data"),
        ("output: {path: out/data}", "", "job.yaml:1: output: is missing"),
        ("{column: cycle}", "{column: cycle, unit: sec}", "'sec' is not allowed (allowed: ns, us, ms, s, m, h, d)"),
        ("windows: {", "prepare: {scale: {how: none, clip: 10}}\nwindows: {", "prepare.scale: clip: 10 is in "
                       "scaled units, and how: none scales nothing"),
        ("windows: {", "prepare: {scale: {how: none, flags: range}}\nwindows: {", "prepare.scale: flags: range "
                       "divides columns of two values, and how: none scales nothing"),
        ("windows: {", "prepare: {scale: {clip: 0}}\nwindows: {", "prepare.scale.clip: 0 is not allowed, it "
                       "must be a number above 0"),
        ("windows: {", "prepare: {scale: {min_divisor: 2}}\nwindows: {", "prepare.scale.min_divisor: 2 is not "
                       "allowed, it must be a number from 0 to 1"),
        ("windows: {", "prepare: {scale: {how: quantile}}\nwindows: {", "'quantile' is not allowed (allowed: standard, "
                       "minmax, robust, none)"),
        ("train: 0.8", "train: 0.8\n  train: 0.7", "job.yaml:10: split.train is given twice"),
        ("windows: {", "windows: {{", "job.yaml:8: is not YAML"),
    ],
)  # fmt: skip
def test_mistakes_name_line_key_and_what_is_allowed(old, new, expected):
    assert old in TEXT
    assert expected in complaint(TEXT.replace(old, new))


def test_every_mistake_is_told_at_once():
    lines = complaint(TEXT.replace("length: 30", "lenght: 30").replace("stride: 1", "stride: x")).splitlines()
    assert len(lines) == 3
    assert any("windows.length: is missing" in line for line in lines)
    assert any("did you mean 'length'?" in line for line in lines)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("windows.strid=4", "--set windows.strid=4: windows.strid: unknown key; did you mean 'stride'?"),
        ("windows.stride", "--set windows.stride: needs key=value"),
        ("windows.stride=[", "--set windows.stride=[: the value '[' is not YAML"),
        ("name.first=x", "--set name.first=x: name is 'turbofan', it holds no keys"),
        ("prepare.max_gap=5x", "prepare.max_gap: '5x' is not a duration, such as 5s, 250ms, 1h"),
        ("source.asset={from: path, pattern: '('}", "is not a regular expression"),
        ("source.asset={from: path, pattern: '(?P<site>x)'}", "has no group named 'asset'"),
        ("split={by: column, column: c, train: [a], eval: [a]}", "the value 'a' is in more than one split"),
        ("output.shards=some", "'some' is not allowed, it must be auto or a whole number from 1 to 100,000"),
        ("output.shards=0", "0 is not allowed, it must be auto or a whole number from 1 to 100,000"),
    ],
)
def test_mistakes_on_the_command_line_name_the_override(override, expected):
    found = complaint(TEXT, override)
    assert expected in found
    assert len(found.splitlines()) == 1


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("split.train=0.9", "job.yaml:8, --set split.train=0.9: split: train + eval + test is 1.1, it must be 1"),
        ("train.workdir=out/data", "job.yaml:1, --set train.workdir=out/data: output.path and train.workdir are "
                                   "the same folder: out/data"),
    ],
)  # fmt: skip
def test_keys_that_do_not_go_together_name_the_override_among_them(override, expected):
    assert complaint(TEXT, override) == expected
    assert complaint(TEXT, "windows.stride=2", override) == expected


@pytest.mark.parametrize("workdir", ["out/data/model", "out/data/", "./out/data/deep/model", "out/x/../data/model"])
def test_a_working_folder_in_the_dataset_is_refused(workdir):
    found = complaint(TEXT.replace("workdir: out/model", f"workdir: {workdir}"))
    assert "train.workdir" in found
    assert "out/data" in found
    assert len(found.splitlines()) == 1


@pytest.mark.parametrize("workdir", ["out/data2", "out", "out/model/data", "gs://b/out/data/model"])
def test_a_working_folder_beside_the_dataset_is_taken(workdir):
    assert parse_job(TEXT.replace("workdir: out/model", f"workdir: {workdir}")).train.workdir == workdir


def test_a_working_folder_in_a_dataset_of_a_bucket_is_refused():
    text = TEXT.replace("path: out/data", "path: gs://b/data/").replace("workdir: out/model", "workdir: gs://b/data/m")
    assert "is inside of output.path" in complaint(text)


def test_files_that_are_no_job(tmp_path):
    with pytest.raises(UserError, match="there is no such job file"):
        load_job(str(tmp_path / "none.yaml"))
    (tmp_path / "evil.yaml").write_text("name: !!python/object/apply:os.system ['true']\n")
    with pytest.raises(UserError, match=r"evil.yaml:1: is not YAML"):
        load_job(str(tmp_path / "evil.yaml"))
    with pytest.raises(UserError, match="is a folder, it must be a job file"):
        load_job(str(tmp_path))


def test_an_unknown_key_is_found_at_its_line():
    text = TEXT.replace("windows: {", "limits:\n  rejected: 0.2\nwindows: {")
    assert complaint(text).startswith("job.yaml:8: limits.rejected: unknown key (allowed: max_rejected_fraction, ")


def test_a_job_that_is_only_preprocessed_needs_no_section_train():
    text = TEXT[: TEXT.index("train:\n")]
    assert parse_job(text).train is None
    with pytest.raises(UserError, match=r"^job.yaml:1: train: is missing, it must be a mapping, such as \{model: "):
        parse_as(TrainingJob, text, name="job.yaml")


def test_a_stage_passes_over_the_sections_of_backends_but_not_other_keys():
    job = parse_job(TEXT, ["launch.preprocess.flink={parallelism: 4}"])
    assert job.launch.preprocess.section("flink") == {"parallelism": 4}
    found = complaint(TEXT, "launch.preprocess.worker=4")
    assert found.endswith(
        "unknown key 'worker'; did you mean 'workers'? (allowed: backend, workers, packages, the section of a backend)"
    )


def test_numbers_are_as_they_are_written():
    """And not those of YAML 1.1, whose 010 is 8 and whose 1:30 is 90."""
    column = "{by: column, column: store, train: [010, 1:30, 0x10, 08, 1_000], eval: [011, 1:30.5, 7]}"
    split = parse_job(TEXT, [f"split={column}"]).split
    assert split.train == ["010", "1:30", "16", "08", "1000"]
    assert split.eval == ["011", "1:30.5", "7"]
    assert parse_job(TEXT.replace("stride: 1", "stride: 010")).windows.stride == 10
