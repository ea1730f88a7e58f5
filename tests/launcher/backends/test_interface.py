"""Another backend is a class of the interface and a name in the one look-up: the rest of the launcher knows none."""

import json

import pytest

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.load import load_job
from beamfeed.contract.config.section import Section
from beamfeed.contract.errors import UserError
from beamfeed.launcher import cli
from beamfeed.launcher import job as launcher_job
from beamfeed.launcher.backends import backends
from beamfeed.launcher.backends.base import Backend, Submission
from beamfeed.launcher.job import job_model
from beamfeed.launcher.stage import PREPROCESS


class EchoSection(Section):
    words: str
    times: int = 1


class EchoRun(Submission):
    def __init__(self, stage, log):
        self.stage, self.log = stage, log

    def follow(self, progress, display):
        self.log.append(("follow", self.stage.command))
        if "interrupt" in self.stage.command:
            raise KeyboardInterrupt
        return 0

    def leave(self):
        self.log.append(("leave", self.stage.name))

    def cancel(self):
        self.log.append(("cancel", self.stage.name))


class EchoBackend(Backend):
    """A backend of a test's own; notes down what is asked of it."""

    stages = (PREPROCESS,)
    section = EchoSection

    def __init__(self):
        self.log = []

    def check(self, job, name):
        if job.launch.preprocess.section("echo").words == "bad":
            raise UserError("launch.preprocess.echo.words: is bad")

    def command(self, name, job, arguments):
        return ("echo", job.launch.preprocess.section("echo").words, name, *arguments)

    def describe(self, stage):
        return [" ".join(stage.command)]

    def submit(self, stage, display):
        return EchoRun(stage, self.log)

    def find(self, stage):
        return EchoRun(stage, self.log)


@pytest.fixture
def echo(monkeypatch):
    backend = EchoBackend()
    monkeypatch.setitem(backends(), "echo", backend)
    job_model.cache_clear()
    yield backend
    job_model.cache_clear()


@pytest.fixture
def job(fleet, tmp_path):
    """Writes a job whose launch section for preprocessing is this one; returns its path."""
    (fleet.files / "one.csv").write_text("t,x0\n1,2\n")

    def write(**launch):
        fleet.job["launch"]["preprocess"] = launch
        return str(fleet.write_job())

    return write


def test_its_section_is_checked_strictly(echo, job):
    path = job(backend="echo", echo={"words": "hello"})
    assert launcher_job.load_job(path).launch.preprocess.section("echo") == EchoSection(words="hello")
    for launch, told in [
        ({"backend": "echo"}, "backend: echo needs a section 'echo': words"),
        ({"backend": "echo", "echo": {"word": "x"}}, "echo.word: unknown key; did you mean 'words'?"),
        ({"backend": "ecko", "echo": {"words": "x"}}, "'ecko' is not allowed; did you mean 'echo'?"),
        ({"backend": "local", "nomad": {}}, "launch.preprocess.nomad: unknown key"),
    ]:
        with pytest.raises(UserError) as caught:
            launcher_job.load_job(job(**launch))
        assert told in str(caught.value)
    with pytest.raises(UserError, match=r"launch.train.backend: 'echo' is not allowed"):
        launcher_job.load_job(job(), ["launch.train.backend=echo"])


def test_a_stage_that_is_started_by_hand_passes_its_section_over(job):
    path = job(backend="echo", echo={"words": "hello"})
    assert isinstance(load_job(path), Job)


def test_the_schema_has_it(echo, capsys):
    assert cli.main(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["$defs"]["EchoSection"]["required"] == ["words"]
    backend, variable = schema["$defs"]["PreprocessLaunch"]["properties"]["backend"]["anyOf"]
    assert backend["enum"] == ["local", "dataflow", "flink", "spark", "prism", "slurm", "kubernetes", "echo"]
    assert variable["pattern"]
    assert "echo" not in schema["$defs"]["TrainLaunch"]["properties"]


def test_plan_run_and_cancel_go_through_it(echo, job, capsys):
    path = job(backend="echo", echo={"words": "hello"})
    assert cli.main(["preprocess", path, "--dry-run"]) == 0
    assert f"  echo hello preprocess --job {path}\n" in capsys.readouterr().out
    assert cli.main(["preprocess", path, "--set", "windows.stride=1", "--", "--option"]) == 0
    command = ("echo", "hello", "preprocess", "--job", path, "--set", "windows.stride=1", "--option")
    assert echo.log == [("follow", command)]
    assert cli.main(["cancel", path]) == 0
    assert echo.log[1:] == [("cancel", "preprocess")]


def test_what_it_refuses_is_told_before_anything_is_listed(echo, job, capsys):
    path = job(backend="echo", echo={"words": "bad"})
    assert cli.main(["preprocess", path, "--set", "source.files=/nowhere/*"]) == 2
    assert capsys.readouterr().err == "beamfeed: launch.preprocess.echo.words: is bad\n"


def test_an_interrupted_launcher_leaves_the_run(echo, job):
    path = job(backend="echo", echo={"words": "interrupt"})
    assert cli.main(["preprocess", path]) == cli.INTERRUPTED
    assert [what for what, _ in echo.log] == ["follow", "leave"]
