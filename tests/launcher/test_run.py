"""Stages one after the other, with real processes that stand in for them."""

import sys

from beamfeed.contract.config.load import parse_job
from beamfeed.launcher.display import Lines
from beamfeed.launcher.plan import Plan
from beamfeed.launcher.run import run_plan
from beamfeed.launcher.stage import FLOOR, PREPROCESS, TRAIN, Stage

JOB = parse_job(
    """
name: small
source: {kind: timeseries, files: in, time: {column: t}, features: ["a"]}
windows: {length: 8}
output: {path: out/data}
"""
)


def plan_of(tmp_path, codes):
    """A plan whose stages write their names into a file and end with these codes."""
    code = "import sys; open(sys.argv[1], 'a').write(sys.argv[2] + ' '); sys.exit(int(sys.argv[3]))"
    ran = tmp_path / "ran"
    stages = [
        Stage(name, (sys.executable, "-c", code, str(ran), name, str(codes[name])), "local", 1, "", False, "to do")
        for name in codes
    ]
    return Plan(JOB, "job.yaml", tuple(stages)), ran


def test_a_stage_that_fails_is_the_last(tmp_path):
    plan, ran = plan_of(tmp_path, {PREPROCESS: 1, TRAIN: 0})
    code, seconds = run_plan(plan, Lines())
    assert (code, seconds, ran.read_text()) == (1, {}, "preprocess ")


def test_a_floor_that_fails_does_not_stop_the_model(tmp_path, capsys):
    plan, ran = plan_of(tmp_path, {FLOOR: 2, TRAIN: 0})
    code, seconds = run_plan(plan, Lines())
    assert (code, list(seconds), ran.read_text()) == (0, [TRAIN], "floor train ")
    assert "floor: ended with exit code 2; the model is trained without it" in capsys.readouterr().err
