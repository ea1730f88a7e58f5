"""Options that do not exist: told in one line, where Beam would warn and go on."""

import subprocess
import sys

import pytest
from fleets import make_table

from beamfeed.contract.errors import UserError
from beamfeed.pipelines.options import check_options, read_options
from beamfeed.pipelines.preprocess import main

WRONG = [
    (["--job=j", "--sett", "x=1"], "--sett: Beam has no such option; did you mean '--set'?"),
    (["--job=j", "--sett=x=1"], "--sett: Beam has no such option; did you mean '--set'?"),
    (["--jobb=j"], "--jobb: Beam has no such option; did you mean '--job'?"),
    (["--job=j", "--direct_num_worker=2"], "--direct_num_worker: Beam has no such option; did you mean '--direct_num_"),
    (["--job=j", "--sprocket"], "--sprocket: Beam has no such option"),
    (["--job=j", "-x"], "-x: Beam has no such option"),
    (["job.yaml"], "'job.yaml': is not an option; a job file is given as --job job.yaml"),
    (["--job=j", "--direct_num_workers=two"], "argument --direct_num_workers: 'two' is not a whole number"),
    (["--job"], "argument --job: expected one argument"),
    (["--job=j", "--runner=NoRunner"], "--runner: 'NoRunner' is none of DataflowRunner, "),
]


@pytest.mark.parametrize("runner", [[], ["--runner=DirectRunner"], ["--runner=DataflowRunner"]])
@pytest.mark.parametrize(("argv", "message"), WRONG)
def test_a_wrong_option_is_one_line(argv, message, runner, capfd, fleet):
    if any(one.startswith("--runner") for one in argv) and runner:
        pytest.skip("it names its own")
    fleet.write("m.parquet", make_table(20))
    job = f"--job={fleet.write_job()}"
    assert main([*runner, *(job if one == "--job=j" else one for one in argv)]) == 2
    out, error = capfd.readouterr()
    assert (out, len(error.splitlines())) == ("", 1)
    assert error.startswith(message)


SERVERS_OWN = ["--parallelism=2", "--checkpointing_intervall", "100", "--spark_thing", "--x=1"]


@pytest.mark.parametrize(
    "runner", ["PortableRunner", "FlinkRunner", "spark", "PrismRunner", "tests_own.Runner", "unittest.mock.MagicMock"]
)
def test_a_job_server_may_know_options_that_beam_does_not(runner, capfd):
    argv = [f"--runner={runner}", *SERVERS_OWN]
    assert main(argv) == 2
    told = "'tests_own.Runner' cannot be loaded" if runner.startswith("tests") else "--job: is missing"
    assert told in capfd.readouterr().err
    if not runner.startswith("tests"):
        assert main([*argv, "--sett=x=1"]) == 2
        assert capfd.readouterr().err == "--sett: Beam has no such option; did you mean '--set'?\n"
        assert main([*argv, "one", "job.yaml"]) == 2
        assert "'one': is not an option" in capfd.readouterr().err


def test_options_are_not_changed_by_the_check():
    argv = ["--job=j", "--set=a=1", "--set", "b=2", "--direct_num_workers=2"]
    check_options(argv, passes_on=False)
    options = read_options(argv)
    assert (options.job, options.set) == ("j", ["a=1", "b=2"])
    with pytest.raises(UserError, match="--set: expected one argument"):
        read_options(["--set"])


def test_the_help_lists_our_own(root):
    command = [sys.executable, "-m", "beamfeed.pipelines.preprocess", "--help"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--job JOB" in done.stdout
    assert "--set KEY=VALUE" in done.stdout
