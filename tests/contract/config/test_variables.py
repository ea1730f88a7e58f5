"""Variables of the environment in a job file."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from beamfeed.contract import errors
from beamfeed.contract.config.document import parse_document
from beamfeed.contract.config.load import load_job, parse_job
from beamfeed.contract.config.variables import escaped
from beamfeed.contract.errors import UserError

TEXT = """\
name: turbofan
source: {kind: timeseries, files: "fleet/*.parquet", time: {column: cycle}, features: ["sensor_*"]}
windows: {length: 30, stride: 1}
output: {path: out/data}
train:
  model: {name: recurrent_autoencoder}
  workdir: out/model
"""


@pytest.fixture(autouse=True)
def _variables(monkeypatch):
    monkeypatch.setattr(errors, "_SECRETS", {})
    monkeypatch.delenv("NOWHERE", raising=False)
    for name, value in {
        "OUT": "gs://b/out", "ROWS": "12", "EMPTY": "", "MONEY": "a$$b${OUT}", "MODE": "yes: [no]"
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)


def data(text):
    return parse_document(text, "conf/job.yaml").data


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("${OUT}/data", "gs://b/out/data"),
        ("'${OUT}'", "gs://b/out"),
        ('"${OUT}-${ROWS}"', "gs://b/out-12"),
        ("${ROWS}", 12),  # as if the number stood there
        ("'${ROWS}'", "12"),
        ("${ROWS}.5", 12.5),
        ("${EMPTY}", None),
        ("'${EMPTY}'", ""),
        ("${NOWHERE:-7}", 7),
        ("${EMPTY:-x}", "x"),
        ("'${NOWHERE:-}'", ""),
        ("${OUT:-x}", "gs://b/out"),
        ("'${NOWHERE:-a, b: c}'", "a, b: c"),
        ("${NOWHERE:-gs://b/c}", "gs://b/c"),
        ("{path: ${OUT}/data, rows: ${ROWS}}", {"path": "gs://b/out/data", "rows": 12}),  # braces of YAML around it
        ("[${ROWS}, '${ROWS}']", [12, "12"]),
        ("$${OUT}", "${OUT}"),
        ("$$", "$"),
        ("$OUT costs 5$", "$OUT costs 5$"),  # no variable
        ("'(?P<asset>[^/]+)$'", "(?P<asset>[^/]+)$"),
        ("'${MONEY}'", "a$$b${OUT}"),  # what a variable holds stays as it is
        ("${MODE}", "yes: [no]"),  # and is one value
        ("${JOB_DIR}/x", "conf/x"),
        ("x  # ${NOWHERE}", "x"),
        ("|\n  ${OUT}\n  b", "gs://b/out\nb"),
    ],
)
def test_values(value, expected):
    assert data(f"name: {value}") == {"name": expected}


def test_keys_are_as_they_stand():
    assert data("${OUT}: 1") == {"${OUT}": 1}


def test_an_alias_is_filled_in_once():
    assert data("a: &x ['${MONEY}']\nb: *x") == {"a": ["a$$b${OUT}"], "b": ["a$$b${OUT}"]}


def test_a_job_with_variables():
    job = parse_job(TEXT.replace("stride: 1", "stride: ${ROWS}").replace("out/data", "${OUT}/data"))
    assert (job.windows.stride, job.output.path) == (12, "gs://b/out/data")


def test_what_is_not_set_is_told_with_its_line():
    text = TEXT.replace("stride: 1", "stride: ${NOWHERE}").replace("out/model", "${a-b}/${")
    with pytest.raises(UserError) as caught:
        parse_job(text, name="job.yaml")
    assert str(caught.value).splitlines() == [
        "job.yaml:3: windows.stride: ${NOWHERE} is not set in the environment; set it, or write ${NOWHERE:-default}",
        "job.yaml:7: train.workdir: ${a-b} names no variable; $${a-b} is the text itself",
    ]


def test_what_yaml_cannot_read_is_told_as_it_was_written():
    with pytest.raises(UserError, match=r"^job.yaml:1: is not YAML: "):
        parse_job("name: [${OUT}", name="job.yaml")


@pytest.mark.parametrize("name", ["DB_PASSWORD", "MY_API_KEY", "HF_TOKEN", "key", "Client_Secret"])
def test_a_secret_is_never_told(monkeypatch, name):
    monkeypatch.setenv(name, "hunter2")
    with pytest.raises(UserError) as caught:
        parse_job(TEXT.replace("stride: 1", f"stride: ${{{name}}}"), name="job.yaml")
    assert "hunter2" not in str(caught.value)
    assert f"windows.stride: '${{{name}}}' is not allowed, it must be a whole number" in str(caught.value)
    assert str(UserError("gs://hunter2/a is not there")) == f"gs://${{{name}}}/a is not there"
    assert "hunter2" not in str(errors.JobFailed("hunter2"))


def test_others_are_told():
    with pytest.raises(UserError, match=r"windows\.stride: 'gs://b/out' is not allowed"):
        parse_job(TEXT.replace("stride: 1", "stride: ${OUT}"))


def test_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    text = (
        TEXT.replace("fleet/*.parquet", "~/fleet/*.parquet").replace("out/data", "~/data").replace("out/model", "~/m")
    )
    job = parse_job(text, ["launch.preprocess.packages=[~/steps]", "train.init.from=~/a.keras"])
    assert job.source.files == f"{tmp_path}/fleet/*.parquet"
    assert (job.output.path, job.train.workdir) == (f"{tmp_path}/data", f"{tmp_path}/m")
    assert job.launch.preprocess.packages == [f"{tmp_path}/steps"]
    assert job.train.init.from_ == f"{tmp_path}/a.keras"
    assert parse_job(TEXT, ["source.files=[~/a, b~]"]).source.files == [f"{tmp_path}/a", "b~"]


def test_overrides_are_taken_as_they_stand():
    assert parse_job(TEXT, ["output.path=a$$b${OUT}"]).output.path == "a$$b${OUT}"


@given(st.recursive(st.text("a${}:-OUT$"), lambda inner: st.lists(inner) | st.dictionaries(st.text("ab"), inner)))
def test_what_is_escaped_comes_back(value):
    text = yaml.safe_dump({"x": escaped(value)})
    assert data(text) == {"x": value}


def test_a_job_from_memory_keeps_its_dollars(tmp_path):
    from beamfeed.launcher.api import _job_file

    (tmp_path / "job.yaml").write_text(TEXT.replace("out/data", "'${MONEY}'"))
    job = load_job(str(tmp_path / "job.yaml"))
    with _job_file(job) as path:
        assert load_job(path).output.path == "a$$b${OUT}"


@pytest.mark.parametrize("value", ["${NOPE:-${HOME}/d}", "${NOPE:-{}}", "'${'", "${open"])
def test_a_variable_in_another_one_is_refused(value):
    with pytest.raises(UserError, match=r"job.yaml:\d+: output.path: holds \$\{ without a name"):
        parse_job(TEXT.replace("out/data", f'"{value}"'), name="job.yaml")


@pytest.mark.parametrize(("name", "value"), [("MAX_TOKENS", "100000"), ("PWD", "/home/somebody"), ("PIN_KEY", "e")])
def test_what_is_no_secret_is_told(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match="is not allowed, it must be a whole number"):
        parse_job(TEXT.replace("stride: 1", f"stride: x${{{name}}}"), name="job.yaml")
