"""Whatever a job file holds in the place of what is wanted: one line in plain words, with the value and the place."""

import pytest
import yaml
from job_text import TEXT, complaint

from beamfeed.contract.config.load import load_job
from beamfeed.contract.config.section import Section
from beamfeed.contract.errors import UserError
from beamfeed.launcher.job import job_model

# Words of the library that checks the file, of Python, or of our own code.
INNER = ("valid ", "instance", "dictionary", "tuple", "parse", "greater than", "less than", "pattern", "None", "should")

# Seven hundred bytes that stand for billions of items.
ALIASES = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10))


def message(text: str, *overrides: str) -> str:
    return complaint(text, *overrides, model=job_model())


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("source.time=cycle", "source.time: needs a mapping, such as {column: cycle}, not 'cycle'"),
        ("source.time=null", "source.time: is empty, it must be a mapping, such as {column: cycle}"),
        ("source.features=a", "'a' is not allowed, it must be a list, such as [a] with at least one entry"),
        ("source.features=[]", "[] is not allowed, it must be a list, such as [one, two] with at least one entry"),
        ("source.files=3", "3 is not allowed, it must be text or a list"),
        ("source.kind=null", "source: needs kind: timeseries or table or image or array"),
        ("source.csv.skip_lines=-1", "-1 is not allowed, it must be a whole number, 0 or more or auto"),
        ("source.csv.header=maybe", "'maybe' is not allowed, it must be auto or true or false"),
        ("source.max_assets=x", "'x' is not allowed, it must be a whole number above 0"),
        ("name=3", "3 is not allowed, it must be letters, digits, _ . and -"),
        ("name=a b", "'a b' is not allowed, it must be letters, digits, _ . and -"),
        ("windows.length=100000000", "100000000 is not allowed, it must be a whole number from 1 to 1,000,000"),
        ("prepare={max_gap: .inf}", "inf is not allowed, it must be a duration, such as 5s, 250ms or 1h, or a number"),
        ("prepare={max_gap: 1.0e+308}", "prepare.max_gap: 1e+308 is out of range"),
        (f"prepare={{max_gap: 1{'0' * 400}}}", "000 is out of range"),
        ("prepare={max_gap: 99999999d}", "prepare.max_gap: '99999999d' is out of range"),
        ("windows.length=.nan", "nan is not allowed, it must be a whole number from 1 to 1,000,000"),
        ("windows.length=1.5", "1.5 is not allowed, it must be a whole number from 1 to 1,000,000"),
        ("windows.length=true", "true is not allowed, it must be a whole number from 1 to 1,000,000"),
        ("windows.length=2026-01-01", "2026-01-01 is not allowed, it must be a whole number from 1 to 1,000,000"),
        ("windows={length: 3, 3: 4}", "has the key 3, which YAML does not take for text; write it in quotes"),
        ("output.path='out/in[1]/data'", "'out/in[1]/data' holds '[', which TensorFlow takes for a glob"),
        ("train.workdir='out\\model'", "'out\\\\model' holds '\\\\', which TensorFlow takes for a glob"),
        ("windows.length=&a [*a]", "a value cannot hold aliases (*name)"),
        ("prepare.range={a: 3}", "3 is not allowed, it must be a list of 2 values, each a number or null"),
        ("prepare.range={a: [1]}", "[1] is not allowed, it must be a list of 2 values, each a number or null"),
        ("prepare.range={a: [.inf, 2]}", "inf is not allowed, it must be a number"),
        ("prepare.resample={}", "every: is missing, it must be a duration, such as 5s, 250ms or 1h"),
        ("prepare.resample.every=yes", "true is not allowed, it must be a duration"),
        ("prepare.missing.value=.nan", "nan is not allowed, it must be a number"),
        ("prepare.missing.value=1.0e+39", "1e+39 is not allowed, it must be a number that float32 can hold"),
        ("features={a: {type: numeric, missing: .inf}}", "must be mean or a number that float32 can hold"),
        ("split.train=0.9", "split: train + eval + test is 1.1, it must be 1"),
        ("split.train=x", "it must be a number from 0 to 1 or a whole number above 1 or a list, such as [x]"),
        ("output.path=''", "'' is not allowed, it must be text that is not empty"),
        ("train.model.units=64", "64 is not allowed, it must be a list, such as [64, 32] with at least one entry"),
        ("train.model.units=[x]", "'x' is not allowed, it must be a whole number above 0"),
        ("train.task={name: classify, threshold: 2}", "2 is not allowed, it must be best_f1 or a number between 0 and"),
        ("train.task={outputs: {A: {name: regress}}}", "'A' is not allowed as a name, it must be small letters"),
        ("train.task={outputs: {A b: {name: regress}}}", "with a letter first, such as fault_2; a_b is one"),
        ("train.optimizer.learning_rate=.inf", "inf is not allowed, it must be a number above 0"),
        ("train.writers=csv", "'csv' is not allowed, it must be a list of tensorboard or csv or mlflow"),
        ("train.seed=99999999999999999999", "is not allowed, it must be a whole number from 0 to 4,294,967,295"),
        ("train.early_stopping=yes", "needs a mapping, such as {patience: 3}, not true"),
        ("train.floor=maybe", "'maybe' is not allowed, it must be true or false"),
        ("launch.train.workers=two", "'two' is not allowed, it must be a whole number from 1 to 1,024"),
        ("launch.preprocess.dataflow=3", "needs a mapping, such as {project: my-project, "),
        ("launch.preprocess.dataflow={project: 7}", "7 is not allowed, it must be the id of a project"),
        ("launch.preprocess.dataflow={region: x}", "'x' is not allowed, it must be a region, such as europe-west1"),
        ("launch.preprocess.dataflow={labels: {A: b}}", "'A' is not allowed as a name, it must be at most 63 small"),
        ("label=[3]", "label.0: needs a mapping, such as {column: fault}, not 3"),
        ("windows.=3", "needs key=value, such as windows.stride=4"),
        ("windows.length=2026-13-01", "the value '2026-13-01' is not YAML; try it in quotes"),
        ("windows.length.x=3", "length is 30, it holds no keys"),
        ('prepare.range={a: {b: "x\\ny"}}', "{b: x\\ny} is not allowed, it must be a list of 2 values"),
        ("name=a\n\nb", "is not allowed, it must be letters"),
        ("name=" + "x y" * 100, "x yx yx ... is not allowed"),
    ],
)
def test_a_value_of_another_kind(override, told):
    # Of a section that lacks keys, each is told.
    (line,) = (
        one for one in message(TEXT, override).splitlines() if "is missing, it must be" not in one or told in one
    )
    assert told in line
    assert f"--set {override}".replace("\n", "\\n") in line
    assert not [word for word in INNER if word in line.replace(override, "")]


def test_a_rule_of_the_job_names_the_line_of_the_key_that_breaks_it():
    assert message(TEXT + "features: {a: numeric}\n") == (
        "job.yaml:14: features: does not go with source.kind: timeseries"
    )


def test_many_mistakes_of_one_kind_do_not_fill_the_screen():
    lines = message(TEXT, f"source.features={list(range(1000))}").splitlines()
    assert len(lines) == 11
    assert lines[-1] == "job.yaml:1: 990 more mistakes"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "job.yaml: is empty; a job file is a mapping with the keys name, source"),
        ("- a\n- b\n", "job.yaml: holds [a, b]; a job file is a mapping"),
        ("name: a\n\tsource: b\n", "job.yaml:2: is not YAML: "),
        ("name: a\x00b\n", "job.yaml: is not YAML: "),
        ("name: 2024-13-01\n", "job.yaml: holds what looks like a date or a number, but is none: month must be"),
        ("name: &a [*a]\n", "job.yaml: is nested too deeply for a job file"),
        (ALIASES, "job.yaml: holds more than 100,000 keys and items, counting those that its aliases (*name) repeat"),
        (ALIASES + "<<: [*a8, *a8]\n", "job.yaml: holds more than 100,000 keys and items"),
        ("name: " + "[" * 3000, "job.yaml: is nested too deeply for a job file"),
        ("name: a\nname: b\n", "job.yaml:2: name is given twice"),
        ("? [a]\n: b\n", "job.yaml:1: is not YAML: found unhashable key"),
    ],
)
def test_what_is_no_job_file(text, told):
    (line,) = message(text).splitlines()
    assert line.startswith(told)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("name: ä".encode("utf-16"), "is not text in UTF-8 (byte 0xff at place 0); save the job file as UTF-8"),
        (b"\x7fELF\x02\xf3\x00", "is not text in UTF-8 (byte 0xf3 at place 5)"),
    ],
)
def test_a_file_that_is_no_text(tmp_path, data, told):
    (tmp_path / "job.yaml").write_bytes(data)
    with pytest.raises(UserError) as caught:
        load_job(str(tmp_path / "job.yaml"))
    assert str(caught.value).startswith(f"{tmp_path}/job.yaml: {told}")


def sections(model=Section):
    for one in model.__subclasses__():
        yield one
        yield from sections(one)


@pytest.mark.parametrize(
    "section", sorted({one for one in sections() if one.example != "{}" and "..." not in one.example}, key=str), ids=str
)
def test_the_example_of_a_section_is_one(section):
    if section.__module__.startswith("beamfeed."):
        section.model_validate(yaml.safe_load(section.example))
