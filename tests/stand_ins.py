"""A run with small programs in the place of its stages, and what its terminal shows."""

import re
import sys

from terminals import Terminal

# A run of two stages. What they say and do is the code of the test.
RUN = """
import sys
from beamfeed.contract.config.load import parse_job
from beamfeed.launcher import cli, commands
from beamfeed.launcher.display import choose
from beamfeed.launcher.plan import Plan
from beamfeed.launcher.run import run_plan
from beamfeed.launcher.stage import Stage

JOB = parse_job('''
name: small
source: {kind: timeseries, files: in, time: {column: t}, features: ["a"]}
windows: {length: 8}
output: {path: out/data}
''')
first, second = sys.argv[1:3]
stages = [
    Stage(name, (sys.executable, "-c", code), "local", 1, "", False, "is to be done")
    for name, code in (("preprocess", first), ("train", second))
    if code
]

def run(args):
    with choose(args.quiet, args.json) as display:
        code, _ = run_plan(Plan(JOB, "job.yaml", tuple(stages)), display)
        if code == 0:
            display.summary("dataset  out/data", {"job": "small"})
    return code

commands.CALLS["run"] = run
sys.exit(cli.main(["run", "job.yaml", *sys.argv[3:]]))
"""

# What a stage can say.
STAGE = """
import os, sys, time
from beamfeed.contract.progress import Progress
from beamfeed.contract import streams
streams.take_over()
progress = Progress(sys.argv[-1])

def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.02)
"""

# What stages say.
STEPS = """
progress.total("scan", 4)
for _ in range(4):
    time.sleep(0.05)
    progress.add("scan", assets=1)
progress.total("write", 12, 240_000)
for _ in range(12):
    time.sleep(0.13)
    progress.add("write", assets=1, rows=20_000)
"""
TRAINING = """
time.sleep(0.5)
for at in range(0, 401, 40):
    progress.reached("train", at, 400, "steps", f"epoch {1 + at // 100} of 5")
    time.sleep(0.13)
    if at in (120, 240, 360):
        progress.phase("evaluating")
        print("epoch 1/5  step 100  loss 0.123456", file=sys.stderr)
        progress.evaluation({"step": at, "loss": 0.123456, "eval_loss": None})
        time.sleep(0.3)
progress.phase("exporting")
time.sleep(0.4)
"""
WAITING = """
progress.total("write", 100)
progress.add("write", assets=30)
print("waits", flush=True)
wait_for(os.environ["GO"])
progress.add("write", assets=70)
"""
FAILING = """
progress.total("write", 100)
progress.add("write", assets=30)
time.sleep(0.6)
print("job failed: the disk is full", file=sys.stderr)
sys.exit(1)
"""


def command(first, second="", options=()):
    """The command line of a run; the second stage may be missing."""
    codes = [STAGE + code if code else "" for code in (first, second)]
    return [sys.executable, "-c", RUN, *codes, *options]


def start(first, second="", options=(), **terminal):
    return Terminal(command(first, second, options), **terminal)


def seen(terminal, pattern):
    """Whether a line of this pattern stood on the screen at any time."""
    return any(re.search(pattern, line) for lines in terminal.screens for line in lines)


def without_times(lines):
    return [re.sub(r"\d+\.\d s.*", "", line) for line in lines]


def check_areas(terminal):
    """At all times there is one area, on the last two lines, and nothing is left of an earlier one."""
    for shown in terminal.screens:
        assert [line.startswith("run: ") for line in shown[:-1]].count(True) == 0, shown
        assert [bool(re.search("[━─]{6}", line)) for line in shown[:-2]].count(True) == 0, shown
