"""Each mistake through each command that it fits: one line that names the value and the place, and exit code 2."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from messages.modules import FIND_RATE, MODULES, PREPROCESS, PROFILE, TRAIN, Case
from messages.tables import COMMAND_LINES, FLEET, IN_FILE, LAUNCHERS, SETS
from unprivileged import drop_privileges

from beamfeed.contract.storage.credentials import require_credentials
from beamfeed.launcher import cli

MODELS = """
import keras

def fails(length, features):
    raise RuntimeError("out of luck")

def number(length, features):
    return 7

def flat(length, features):
    windows = keras.Input((length, features))
    return keras.Model(windows, keras.layers.Dense(3)(keras.layers.Flatten()(windows)))
"""
# `beamfeed` commands that read a job file, and modules that do; {data}: a dataset.
JOB_COMMANDS = {
    "run": ["run", "{job}"],
    "run --dry-run": ["run", "{job}", "--dry-run"],
    "preprocess": ["preprocess", "{job}"],
    "train": ["train", "{job}"],
    "train --find-lr": ["train", "{job}", "--find-lr"],
    "train --list-checkpoints": ["train", "{job}", "--list-checkpoints"],
    "cancel": ["cancel", "{job}"],
}
JOB_MODULES = {
    PREPROCESS: ["--job", "{job}"],
    TRAIN: ["--job", "{job}"],
    FIND_RATE: ["--job", "{job}"],
    PROFILE: ["{folder}/data", "--job", "{job}"],
}
VARIABLES = (
    "TF_CONFIG",
    "SLURM_",
    "PET_",
    "WORLD_SIZE",
    "RANK",
    "LOCAL_RANK",
    "MASTER_",
    "MLFLOW_",
    "GOOGLE_APPLICATION",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with a small fleet and its job, datasets that are none, and models of the user's own."""
    folder = tmp_path_factory.mktemp("mistakes")
    rng = np.random.default_rng(7)
    for name in ("fleet", "twice", "other", "damaged", "older", "foreign", "odd/manifest.json"):
        (folder / name).mkdir(parents=True)
    for number in range(2):
        rows = [f"{row},{a:.3f},{b:.3f},w{row}" for row, (a, b) in enumerate(rng.normal(size=(200, 2)))]
        (folder / "fleet" / f"m{number}.csv").write_text("t,x0,x1,word\n" + "\n".join(rows) + "\n")
        (folder / "twice" / f"m{number}.csv").write_text("t,x0,x1,x0\n" + "\n".join(rows).replace("w", "") + "\n")
    (folder / "other" / "a.docx").write_bytes(b"PK")
    (folder / "file").write_text("a file")
    (folder / "damaged" / "manifest.json").write_text('{"name": "small", ')
    (folder / "older" / "manifest.json").write_text('{"version": "0", "name": "small"}')
    (folder / "foreign" / "manifest.json").write_text('{"name": "an app", "start_url": "/"}')
    (folder / "own_models.py").write_text(MODELS)
    (folder / "own_broken.py").write_text("raise ValueError('no luck')\n")
    (folder / "job.yaml").write_text(FLEET.format(folder=folder))
    return folder


def filled(texts: list[str], folder: Path, job: Path) -> list[str]:
    names = {"{folder}": str(folder), "{data}": f"{folder}/data", "{job}": str(job)}
    for name, text in names.items():
        texts = [one.replace(name, text) for one in texts]
    return texts


def check(code: object, out: str, error: str, told: list[str], expected: int = 2) -> None:
    """That a mistake was told as it should be."""
    assert (code, out) == (expected, ""), error
    assert len(error.splitlines()) == 1, error
    assert "Traceback" not in error
    assert [one for one in told if one not in error] == [], error


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    for name in os.environ:
        if name.startswith(VARIABLES):
            monkeypatch.delenv(name)


@pytest.mark.parametrize("command", JOB_COMMANDS)
@pytest.mark.parametrize("name", IN_FILE)
def test_in_a_job_file(name, command, folder, tmp_path, capsys):
    mistake, job = IN_FILE[name], tmp_path / "job.yaml"
    job.write_bytes(mistake.text(FLEET.format(folder=folder)))
    code = cli.main(filled(JOB_COMMANDS[command], folder, job))
    check(code, *capsys.readouterr(), ["beamfeed: ", *mistake.told(str(job))])


@pytest.mark.parametrize("command", JOB_COMMANDS)
@pytest.mark.parametrize("override", SETS)
def test_in_an_override(override, command, folder, capsys):
    code = cli.main([*filled(JOB_COMMANDS[command], folder, folder / "job.yaml"), "--set", override])
    check(code, *capsys.readouterr(), [f"--set {override}", SETS[override]])


@pytest.mark.parametrize("name", COMMAND_LINES)
def test_in_a_command_line(name, folder, capsys):
    arguments, told = COMMAND_LINES[name]
    try:
        code = cli.main(filled(arguments, folder, folder / "job.yaml"))
    except SystemExit as end:
        code = end.code
    check(code, *capsys.readouterr(), ["beamfeed: ", *filled(told, folder, folder / "job.yaml")])


@pytest.fixture(scope="module")
def through_modules(folder, tmp_path_factory) -> dict[tuple[str, str], tuple[Case, list]]:
    """What the main functions of modules say, all in one process; the first makes the dataset of the job."""
    work = tmp_path_factory.mktemp("cases")
    cases = {("the dataset", ""): Case(PREPROCESS, ["--job", str(folder / "job.yaml")], [], code=0)}
    for number, (name, mistake) in enumerate(IN_FILE.items()):
        job = work / f"job-{number}.yaml"
        job.write_bytes(mistake.text(FLEET.format(folder=folder)))
        for module, arguments in JOB_MODULES.items():
            if name not in LAUNCHERS:
                cases[name, module] = Case(module, filled(arguments, folder, job), mistake.told(str(job)))
    for override, told in SETS.items():
        for module, arguments in JOB_MODULES.items():
            more = [*filled(arguments, folder, folder / "job.yaml"), "--set", override]
            cases[override, module] = Case(module, more, [f"--set {override}", told])
    for name, case in MODULES.items():
        arguments, told = (filled(texts, folder, folder / "job.yaml") for texts in (case.arguments, case.told))
        cases[name, case.module] = Case(case.module, arguments, told, case.env, case.code)
    given, found = work / "cases.json", work / "found.json"
    given.write_text(json.dumps([vars(case) for case in cases.values()]))
    env = {name: value for name, value in os.environ.items() if not name.startswith(VARIABLES)}
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(folder), str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("driver.py")), str(given), str(found)],
        env={**env, "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(found.read_text())
    return {key: (case, result) for (key, case), result in zip(cases.items(), results, strict=True)}


def test_through_the_modules(through_modules):
    wrong = []
    for key, (case, (code, out, error)) in through_modules.items():
        try:
            if case.code:
                check(code, out, error, case.told, case.code)
            assert code == case.code, error
        except AssertionError as failed:
            wrong.append(f"{' through '.join(key)}: {str(failed).splitlines()[0]}\n{code}\n{out}{error}")
    assert not wrong, "\n".join(wrong)


REAL = [
    (["run", "{folder}/none.yaml"], ["{folder}/none.yaml: there is no such job file"]),
    (["inspect", "{folder}/none"], ["{folder}/none: there is no dataset"]),
    (["profile", "{folder}/damaged"], ["{folder}/damaged"]),
    (["train", "{job}", "--set", "output.path={folder}/none"], ["output.path", "{folder}/none", "beamfeed preprocess"]),
]


@pytest.mark.parametrize(("arguments", "told"), REAL, ids=lambda one: one[0])
def test_through_processes(arguments, told, folder):
    given = filled(arguments, folder, folder / "job.yaml")
    done = subprocess.run([sys.executable, "-m", "beamfeed.launcher.cli", *given], capture_output=True, text=True)
    check(done.returncode, done.stdout, done.stderr, filled(told, folder, folder / "job.yaml"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "there is no such file"),
        ("{", "is not a key file (JSON with a 'type')"),
        ('{"project": "a"}', "is not a key file (JSON with a 'type')"),
        ("key\xff", "is not a key file (JSON with a 'type')"),
    ],
)
@pytest.mark.parametrize("command", ["run", "preprocess"])
def test_in_a_key_file(text, told, command, folder, tmp_path, monkeypatch, capsys):
    if text is not None:
        (tmp_path / "key.json").write_bytes(text.encode("latin-1"))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    require_credentials.cache_clear()
    code = cli.main([command, str(folder / "job.yaml"), "--set", "source.files=gs://a-bucket/fleet"])
    require_credentials.cache_clear()
    check(code, *capsys.readouterr(), [f"GOOGLE_APPLICATION_CREDENTIALS: {tmp_path}/key.json: {told}", "gcloud auth"])


def test_a_job_file_that_may_not_be_read(folder, tmp_path):
    (tmp_path / "job.yaml").write_text(FLEET.format(folder=folder))
    (tmp_path / "job.yaml").chmod(0)
    done = subprocess.run(
        [sys.executable, "-m", "beamfeed.launcher.cli", "run", str(tmp_path / "job.yaml")],
        capture_output=True, text=True, preexec_fn=drop_privileges,
    )  # fmt: skip
    check(done.returncode, done.stdout, done.stderr, [f"{tmp_path}/job.yaml", "Permission denied"])
