"""What stands on the screen of a real terminal while a run goes on, and after it, with stand-ins for the stages."""

import re
import signal
import sys
from contextlib import ExitStack

import pytest
from fleets import make_table
from stand_ins import FAILING, STEPS, TRAINING, WAITING, check_areas, seen, start, without_times
from terminals import Terminal, finish_all


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same run, in terminals of several widths at a time."""
    go = tmp_path_factory.mktemp("runs") / "go"
    steps = f"wait_for({str(go)!r})\n{STEPS}"  # until all have been looked at: starting them takes a while
    with ExitStack() as stack:
        terminals = [stack.enter_context(start(steps, TRAINING, columns=columns)) for columns in (60, 80, 120, 200)]
        for terminal in terminals:
            terminal.until("preprocess: starting")
        go.touch()
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
    assert seen(terminal, r"^run: stage 1 of 2, \d:\d\d so far$")
    assert seen(terminal, r"^train  ━+─+   ?\d+ %")
    assert seen(terminal, r"^train: evaluating  ━+─+   ?\d+ %")
    assert seen(terminal, r"^train: exporting  ─*━━━━━━─*$")
    assert seen(terminal, r"^run: stage 2 of 2, \d:\d\d so far, about \d:\d\d left$")
    check_areas(terminal)


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


KILLED = FAILING.replace("sys.exit(1)", "os.kill(os.getpid(), 9)")


@pytest.mark.parametrize(
    ("code", "expected", "message"),
    [
        (FAILING, 1, []),
        (KILLED, 128 + 9, ["beamfeed: preprocess was ended by SIGKILL, as a system does that runs out of memory"]),
    ],
)
def test_a_stage_that_fails(code, expected, message):
    with start(code, TRAINING, columns=120) as terminal:
        lines = terminal.finish()
    assert terminal.code == expected
    assert lines == ["preprocess: is to be done", "job failed: the disk is full", *message]
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


@pytest.mark.slow
def test_a_real_run(fleet, root):
    for number in range(4):
        fleet.write(f"m{number}.parquet", make_table(400, seed=number))
    fleet.job["train"]["model"] = {"name": "dense_autoencoder", "units": [4], "latent": 2}
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
