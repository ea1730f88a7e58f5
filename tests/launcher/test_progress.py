"""The progress of preprocessing: reading what the workers append, and telling of it."""

import json
import re
import time

from beamfeed.launcher.display import Lines
from beamfeed.launcher.display.words import ended_line
from beamfeed.launcher.progress import ProgressReader, StageProgress, Step, parse_event, watching


def append(path, *events, end="\n"):
    with open(path, "a") as file:
        file.write("\n".join(json.dumps(event) for event in events) + end)


def test_reads_only_what_is_new(tmp_path):
    reader = ProgressReader(str(tmp_path))
    assert reader.read() == []
    append(tmp_path / "a.jsonl", {"stage": "write", "rows": 1}, {"stage": "write", "rows": 2})
    append(tmp_path / "b.jsonl", {"stage": "write", "rows": 3})
    (tmp_path / "c.txt").write_text("not for us\n")
    assert [event["rows"] for event in reader.read()] == [1, 2, 3]
    assert reader.read() == []
    append(tmp_path / "a.jsonl", {"stage": "write", "rows": 4})
    assert [event["rows"] for event in reader.read()] == [4]


def test_a_line_still_being_written_waits(tmp_path):
    reader = ProgressReader(str(tmp_path))
    append(tmp_path / "a.jsonl", {"stage": "write", "rows": 1}, end="\n{'half")
    assert len(reader.read()) == 1
    assert reader.read() == []
    (tmp_path / "a.jsonl").write_text('{"stage": "write", "rows": 1}\n{"stage": "write", "rows": 2}\n')
    assert [event["rows"] for event in reader.read()] == [2]


def test_lines_that_are_no_events_are_passed_over():
    for line in (b"", b"{", b"[1]", b'{"rows": 1}', b'{"stage": 1}', b'{"stage": "write", "rows": "many"}', b"\xff"):
        assert parse_event(line) is None


def test_a_step_is_done_when_all_that_was_announced_is():
    step = Step("write", started=1.0)
    step.add({"assets": 1, "rows": 10}, 2.0)
    assert not step.done()
    step.add({"total_assets": 2, "total_rows": 20}, 3.0)
    assert not step.done()
    step.add({"assets": 2, "rows": 15}, 5.0)  # a part was tried twice
    assert step.ended == 5.0
    assert step.measure() == (20, 20, "rows")
    assert ended_line("preprocess", step) == "preprocess: write: 2 assets, 20 rows in 4.0 s (6 rows/s)"
    assert ended_line("preprocess", step, width=50) == "preprocess: write: 2 assets, 20 rows in 4.0 s"


def test_a_step_without_rows_counts_assets():
    step = Step("scan", started=1.0)
    step.add({"total_assets": 4, "total_rows": 0}, 1.0)
    step.add({"assets": 3}, 2.0)
    assert step.measure() == (3, 4, "files")
    assert step.counts() == [(3, "files")]


def test_a_log_gets_one_line_for_each_step(capsys):
    display, stage = Lines(), StageProgress("preprocess", 1.0)
    stage.add({"stage": "scan", "total_assets": 2}, 1.0)
    stage.add({"stage": "write", "assets": 1}, 2.0)
    display.show(stage)
    assert capsys.readouterr().err == ""
    stage.add({"stage": "scan", "assets": 2}, 2.5)
    display.show(stage)
    display.show(stage)
    stage.add({"stage": "write", "assets": 1, "rows": 5}, 3.0)
    display.ends(stage, 0, 4.0)
    assert re.sub(r"\d\d:\d\d:\d\d ", "TIME ", capsys.readouterr().err).splitlines() == [
        "TIME preprocess: scan: 2 files in 1.5 s",
        "TIME preprocess: write: 2 assets, 5 rows in 3.0 s (2 rows/s)",
        "TIME preprocess: done in 4.0 s",
    ]


def test_a_log_is_told_of_long_steps_now_and_then(capsys, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    display, stage = Lines(), StageProgress("train", 100.0)
    display.begins(stage, "no finished training run in out")
    for clock[0] in range(101, 200):
        stage.add(
            {"stage": "train", "done": 10 * clock[0] - 1000, "total": 2000, "unit": "steps", "note": "x"}, clock[0]
        )
        display.show(stage)
    stage.add({"phase": "exporting"}, 200.0)
    display.show(stage)
    display.show(stage)
    assert [line.partition(" ")[2] for line in capsys.readouterr().err.splitlines()] == [
        "train: no finished training run in out",
        "train: 300 of 2,000 steps (15 %), 10 steps/s, x, 2:50 left",
        "train: 600 of 2,000 steps (30 %), 10 steps/s, x, 2:20 left",
        "train: 900 of 2,000 steps (45 %), 10 steps/s, x, 1:50 left",
        "train: exporting",
    ]


def test_a_stage_that_fails_tells_no_more(capsys):
    display, stage = Lines(), StageProgress("preprocess", 1.0)
    stage.add({"stage": "write", "assets": 1}, 2.0)
    display.ends(stage, 1, 4.0)
    assert capsys.readouterr().err == ""


def test_a_run_that_goes_on_counts_from_there():
    step = Step("train", started=1.0)
    for at, now in ((100, 1.0), (101, 30.0), (121, 32.0)):
        step.add({"done": at, "total": 200, "unit": "steps"}, now)
    # What the first one took is not like the others: something was compiled.
    assert (step.rate(), step.seconds_left(32.0), step.counts()) == (10.0, 7.9, [(21, "steps")])
    assert step.seconds_left(34.0) == 5.9  # nothing was told since, and time goes on


def test_a_run_that_is_started_again_has_the_rate_of_its_own():
    step = Step("train", started=1.0)
    for at, now in ((0, 1.0), (10, 2.0), (110, 12.0), (50, 20.0), (51, 40.0), (71, 50.0)):
        step.add({"done": at, "total": 111, "unit": "steps"}, now)
    assert (step.measure(), step.rate(), step.seconds_left(50.0)) == ((71, 111, "steps"), 2.0, 20.0)


def test_what_is_left_of_a_run_is_told_where_it_is_known():
    def left(step, number):
        stage = StageProgress("a", 1.0, number, 2)
        stage.add({"stage": step, "total_assets": 10}, 1.0)
        stage.add({"stage": step, "assets": 1}, 4.0)
        stage.add({"stage": step, "assets": 4}, 8.0)
        return stage.run_left(8.0)

    assert left("write", 1) is None  # another stage follows
    assert left("scan", 2) is None  # other steps do
    assert left("write", 2) == 5.0


def test_watching_shows_what_came_last(tmp_path):
    stage, shown = StageProgress("preprocess", 1.0), []
    with watching(str(tmp_path), stage, lambda stage: shown.append(stage.phase)):
        append(tmp_path / "a.jsonl", {"stage": "scan", "assets": 2, "total_assets": 2})
        append(tmp_path / "a.jsonl", {"stage": "verify", "assets": 2, "rows": 30})
        append(tmp_path / "a.jsonl", {"phase": "publishing"})
    assert stage.steps["scan"].ended is not None
    assert stage.steps["verify"].counts() == [(2, "shards"), (30, "rows")]
    assert shown[-1] == "publishing"
