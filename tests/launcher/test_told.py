"""How much a command tells, and to whom: --quiet, and --json."""

import json
import subprocess
import sys
from datetime import datetime

from stand_ins import FAILING, STEPS, TRAINING, command, start


def test_quiet(tmp_path):
    with start(STEPS, options=["--quiet"]) as terminal:
        assert terminal.finish() == []
    with start(FAILING, options=["-q"]) as terminal:
        assert terminal.finish() == ["job failed: the disk is full"]


def test_json():
    done = subprocess.run(command(STEPS, TRAINING, ["--json"]), capture_output=True, text=True)
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
    wrong = [sys.executable, "-m", "beamfeed.launcher.cli", "run", "nowhere.yaml", "--json"]
    done = subprocess.run(wrong, capture_output=True, text=True)
    (event,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (event["event"], event["code"], event["message"]) == ("error", 2, "nowhere.yaml: there is no such job file")
    assert done.stderr == "beamfeed: nowhere.yaml: there is no such job file\n"
