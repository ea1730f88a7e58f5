"""What stands on the screen of a real terminal while a run goes on, and after it, with stand-ins for the stages."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import datetime

import pytest
from fleets import make_table
from terminals import Terminal, finish_all

# A run of two stages. What the first one says and does is the code of the test.
RUN = """
import sys
import time
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
    Stage(name, (sys.executable, "-c", code), "local", 1, "", False, "is to be done", reports_progress=True)
    for name, code in (("preprocess", first), ("train", second))
    if code
]

def run(args):
    with choose(args.quiet, args.json) as display:
        code, _ = run_plan(Plan(JOB, "job.yaml", tuple(stages)), display)
        if code == 0:
            display.summary("dataset  out/data", {"job": "small"})
    return code

commands.run = run
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


def start(first, second="", options=(), **terminal):
    codes = [STAGE + code if code else "" for code in (first, second)]
    return Terminal([sys.executable, "-c", RUN, *codes, *options], **terminal)


def seen(terminal, pattern):
    """Whether a line of this pattern stood on the screen at any time."""
    return any(re.search(pattern, line) for lines in terminal.screens for line in lines)


def without_times(lines):
    return [re.sub(r"\d+\.\d s.*", "", line) for line in lines]


@pytest.fixture(scope="module")
def runs():
    """The same run, in terminals of several widths at a time."""
    with ExitStack() as stack:
        terminals = [stack.enter_context(start(STEPS, TRAINING, columns=columns)) for columns in (60, 80, 120, 200)]
        finish_all(terminals)
        yield {terminal.screen.columns: terminal for terminal in terminals}


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_a_run_of_two_stages(runs, columns):
    terminal = runs[columns]
    assert terminal.code == 0
    assert without_times(terminal.all_lines()) == [
        "preprocess: is to be done",
        "preprocess: scan: 4 files in ",
        "preprocess: write: 12 assets, 240,000 rows in ",
        "preprocess: done in ",
        "train: is to be done",
        *3 * ["epoch 1/5  step 100  loss 0.123456"],
        "train: done in ",
        "dataset  out/data",
    ]
    assert seen(terminal, r"^preprocess: starting  ─*━+")
    assert seen(terminal, r"^preprocess: write  ━+─+   ?\d+ %  .* left$")
    assert seen(terminal, r"^run: stage 1 of 2, 0:0\d so far$")
    assert seen(terminal, r"^train  ━+─+   ?\d+ %")
    assert seen(terminal, r"^train: evaluating  ━+─+   ?\d+ %")
    assert seen(terminal, r"^train: exporting  ─*━━━━━━─*$")
    assert seen(terminal, r"^run: stage 2 of 2, 0:0\d so far, about 0:0\d left$")
    check_areas(terminal)


def check_areas(terminal):
    """At all times there is one area, on the last two lines, and nothing is left of an earlier one."""
    for shown in terminal.screens:
        assert [line.startswith("run: ") for line in shown[:-1]].count(True) == 0, shown
        assert [bool(re.search("[━─]{6}", line)) for line in shown[:-2]].count(True) == 0, shown


TALKING = """
BARS = {7: b"\\r 50 %\\r100 % of a bar of its own\\n", 9: b"50 %\\r", 10: b"100 % of another\\r\\n"}
progress.total("write", 100)
for at in range(20):
    progress.add("write", assets=1)
    os.write(1, b"half of ")
    time.sleep(0.03)
    os.write(1, b"a line\\n")
    os.write(2, BARS.get(at, b""))
    time.sleep(0.03)
print("x" * 100)
sys.stdout.write("the last words have no end")
"""


def test_what_a_stage_prints_stands_above_in_whole_lines():
    with start(TALKING) as terminal:
        lines = terminal.finish()
    assert lines[1:25] == [
        *8 * ["half of a line"],
        "100 % of a bar of its own",
        *2 * ["half of a line"],
        "half of a line",
        "100 % of another",
        *9 * ["half of a line"],
        "x" * 80,
        "x" * 20,
    ]
    assert lines[25] == "the last words have no end"
    assert seen(terminal, r"^preprocess: write  ━*─+ +\d+ %")
    check_areas(terminal)


WAITING = """
progress.total("write", 100)
progress.add("write", assets=30)
print("waits", flush=True)
wait_for(os.environ["GO"])
progress.add("write", assets=70)
"""


@pytest.mark.parametrize("sizes", [[(200, 24), (60, 24), (120, 24)], [(200, 24), (61, 24)], [(80, 3), (80, 24)]])
def test_a_terminal_that_is_resized(tmp_path, sizes):
    (columns, rows), *others = sizes
    with start(WAITING, columns=columns, rows=rows, env={"GO": str(tmp_path / "go")}) as terminal:
        terminal.until("preprocess: write")
        for columns, rows in others:
            terminal.resize(columns, rows)
            begun = len(terminal.screens)
            while len(terminal.screens) < begun + 6:
                assert terminal.read()
            check_areas(terminal)
            assert any("preprocess: write" in line for line in terminal.lines())
            assert all(len(line) < columns for line in terminal.lines())
        (tmp_path / "go").touch()
        lines = terminal.finish()
    assert terminal.code == 0
    assert without_times(lines)[-4:] == [
        "waits",
        "preprocess: write: 100 assets in ",
        "preprocess: done in ",
        "dataset  out/data",
    ]


def test_a_terminal_that_can_do_no_more_gets_lines():
    with start(STEPS, env={"TERM": "dumb"}) as terminal:
        lines = terminal.finish()
    assert [re.sub(r"^\d\d:\d\d:\d\d ", "TIME ", line) for line in without_times(lines)] == [
        "TIME preprocess: is to be done",
        "TIME preprocess: scan: 4 files in ",
        "TIME preprocess: write: 12 assets, 240,000 rows in ",
        "TIME preprocess: done in ",
        "dataset  out/data",
    ]
    assert b"\x1b" not in terminal.raw


@pytest.mark.parametrize("env", [{}, {"NO_COLOR": "1"}])
def test_colours(env):
    with start(STEPS, env={"TERM": "xterm-256color", **env}) as terminal:
        terminal.finish()
    coloured = re.findall(rb"\x1b\[(?:\d+;)*[349]\d(?:;\d+)*m", terminal.raw)
    assert bool(coloured) is not bool(env)
    assert seen(terminal, r"^preprocess: write  ━+─+")


FAILING = """
progress.total("write", 100)
progress.add("write", assets=30)
time.sleep(0.6)
print("job failed: the disk is full", file=sys.stderr)
sys.exit(1)
"""
KILLED = FAILING.replace("sys.exit(1)", "os.kill(os.getpid(), 9)")


@pytest.mark.parametrize(
    ("code", "expected", "told"),
    [
        (FAILING, 1, []),
        (KILLED, 128 + 9, ["beamfeed: preprocess was ended by SIGKILL, as a system does that runs out of memory"]),
    ],
)
def test_a_stage_that_fails(code, expected, told):
    with start(code, TRAINING, columns=120) as terminal:
        lines = terminal.finish()
    assert terminal.code == expected
    assert lines == ["preprocess: is to be done", "job failed: the disk is full", *told]
    check_areas(terminal)


def test_ctrl_c(tmp_path):
    with start(WAITING, env={"GO": str(tmp_path / "go")}) as terminal:
        terminal.until("waits")
        terminal.until("preprocess: write")
        terminal.type(b"\x03")
        lines = terminal.finish()
    assert terminal.code == 130
    assert lines == ["preprocess: is to be done", "waits", "beamfeed: interrupted: nothing published"]


SAVING = """
import signal

def save(*_):
    time.sleep(1)
    print("saved", flush=True)
    sys.exit(143)

signal.signal(signal.SIGTERM, save)
progress.total("write", 100)
print("waits", flush=True)
time.sleep(600)
"""


def test_what_is_saved_at_ctrl_c_is_told():
    with start(SAVING) as terminal:
        terminal.until("preprocess: write")
        terminal.type(b"\x03")
        lines = terminal.finish()
    assert terminal.code == 130
    assert lines == ["preprocess: is to be done", "waits", "saved", "beamfeed: interrupted: nothing published"]
    assert seen(terminal, "^preprocess: stopping  ─+")
    check_areas(terminal)


def test_a_terminal_that_is_closed_ends_the_run(tmp_path):
    with start(WAITING, env={"GO": str(tmp_path / "go")}) as terminal:
        terminal.until("preprocess: write")
        terminal.process.send_signal(signal.SIGHUP)
        lines = terminal.finish()
    assert terminal.code == 128 + signal.SIGHUP
    assert lines == ["preprocess: is to be done", "waits"]


def test_quiet(tmp_path):
    with start(STEPS, options=["--quiet"]) as terminal:
        assert terminal.finish() == []
    with start(FAILING, options=["-q"]) as terminal:
        assert terminal.finish() == ["job failed: the disk is full"]


def test_json():
    command = [sys.executable, "-c", RUN, STAGE + STEPS, STAGE + TRAINING, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == 3 * ["epoch 1/5  step 100  loss 0.123456"]
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(datetime.fromisoformat(event["time"]).tzinfo for event in events)
    told = [
        " ".join(str(event[key]) for key in ("event", "stage", "step", "state", "phase") if key in event)
        for event in events
    ]
    assert [line for line in told if not line.startswith(("progress", "evaluation", "phase train evaluating"))] == [
        "stage preprocess begins",
        "step preprocess scan begins",
        "step preprocess scan done",
        "step preprocess write begins",
        "step preprocess write done",
        "stage preprocess done",
        "stage train begins",
        "step train train begins",
        "step train train done",
        "phase train exporting",
        "stage train done",
        "summary",
    ]
    written = next(event for event in events if event.get("step") == "write" and event.get("state") == "done")
    assert [written[key] for key in ("done", "total", "unit")] == [240_000, 240_000, "rows"]
    assert {*events[-1]} == {"event", "time", "job"}
    assert [event["values"]["step"] for event in events if event["event"] == "evaluation"] == [120, 240, 360]
    keys = ["event", "time", "stage", "step", "done", "total", "unit", "per_second", "seconds_left"]
    assert all([*event] == keys for event in events if event["event"] == "progress")


def test_a_mistake_is_an_event_too():
    command = [sys.executable, "-m", "beamfeed.launcher.cli", "run", "nowhere.yaml", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    (event,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (event["event"], event["code"], event["message"]) == ("error", 2, "nowhere.yaml: there is no such job file")
    assert done.stderr == "beamfeed: nowhere.yaml: there is no such job file\n"


@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
def test_a_terminal_that_breaks_lines_when_it_gets_narrower(tmp_path, root):
    tmux = ["tmux", "-S", str(tmp_path / "socket"), "-f", os.devnull]
    script, go = tmp_path / "run.py", tmp_path / "go"
    script.write_text(f"import os, sys\nsys.argv = ['', {STAGE + WAITING!r}, '']\n{RUN}")
    env = {"PYTHONPATH": str(root), "GO": str(go)}

    def shown():
        lines = subprocess.run(
            [*tmux, "capture-pane", "-p", "-S", "-"], capture_output=True, text=True
        ).stdout.splitlines()
        return [line for line in lines if line]

    def until(wanted):
        end = time.monotonic() + 60
        while not re.search(wanted, "\n".join(shown()), re.MULTILINE):
            assert time.monotonic() < end, shown()
            time.sleep(0.1)

    command = shlex.join([sys.executable, str(script)])
    options = [part for name, value in env.items() for part in ("-e", f"{name}={value}")]
    subprocess.run([*tmux, "new-session", "-d", "-x", "100", "-y", "20", *options, f"{command}; sleep 60"], check=True)
    try:
        until("━{9}─{21}   30 %  30/100 assets$")
        subprocess.run([*tmux, "resize-window", "-x", "50"], check=True)
        until("━{2}─{6}   30 %  30/100 assets$")
        assert [line.partition("  ")[0] for line in shown()[:3]] == [
            "preprocess: is to be done",
            "waits",
            "preprocess: write",
        ]
        assert [line[:4] for line in shown()[3:]] == ["run:"]
        go.touch()
        until("^dataset")
        assert without_times(shown()) == [
            "preprocess: is to be done",
            "waits",
            "preprocess: write: 100 assets in ",
            "preprocess: done in ",
            "dataset  out/data",
        ]
    finally:
        subprocess.run([*tmux, "kill-server"])


@pytest.mark.slow
def test_a_real_run(fleet, root):
    for number in range(4):
        fleet.write(f"m{number}.parquet", make_table(400, seed=number))
    options = ["train.epochs=2", "train.feed.batch_size=16", "launch.train.workers=2"]
    command = [sys.executable, "-m", "beamfeed.launcher.cli", "run", str(fleet.write_job())]
    command += [part for option in options for part in ("--set", option)]
    with Terminal(command, env={"PYTHONPATH": str(root)}, patience=300) as terminal:
        lines = terminal.finish()
    assert terminal.code == 0
    told = "\n".join(lines)
    for step in ("scan", "validate", "write", "verify"):
        assert re.search(rf"^preprocess: {step}: .*\d+ (files|assets|shards).* in \d+\.\d s", told, re.MULTILINE), step
    assert [line[:9] for line in lines if line.startswith("epoch ")] == ["epoch 1/2", "epoch 2/2"]
    assert re.search(r"^train: done in .*\ndataset ", told, re.MULTILINE)
    assert seen(terminal, "^preprocess: starting  [━─]+")
    for phase in ("starting", "compiling", "exporting"):
        assert seen(terminal, f"^train: {phase}  [━─]+"), phase
    assert not any(re.search("[━─]{6}", line) or line.startswith("run:") for line in lines)
    check_areas(terminal)
