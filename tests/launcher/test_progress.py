"""The progress of preprocessing: reading what the workers append, and drawing it."""

import io
import json

from beamfeed.launcher.progress import Bars, Lines, ProgressReader, Step, parse_event, watching


class Terminal(io.StringIO):
    def isatty(self):
        return True


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
    assert step.summary().startswith("write: 2 assets, 20 rows in 4.0 s")


def test_a_step_without_rows_counts_assets():
    step = Step("scan", started=1.0)
    step.add({"total_assets": 4, "total_rows": 0}, 1.0)
    step.add({"assets": 3}, 2.0)
    assert step.measure() == (3, 4, "files")
    assert step.summary() == "scan: 3 files in 0.0 s"


def test_a_log_gets_one_line_for_each_step():
    stream = io.StringIO()
    display = Lines(stream)
    steps = [Step("scan", started=1.0), Step("write", started=2.0)]
    display.show(steps)
    assert stream.getvalue() == ""
    steps[0].add({"assets": 2, "total_assets": 2}, 2.0)
    display.show(steps)
    display.show(steps)
    steps[1].add({"assets": 1, "rows": 5}, 3.0)
    display.close(steps)
    lines = stream.getvalue().splitlines()
    assert [line.split(":")[0] for line in lines] == ["scan", "write"]


def test_a_terminal_gets_a_bar_for_each_step():
    stream = Terminal()
    display = Bars(stream)
    step = Step("write", started=1.0)
    step.add({"total_assets": 4, "total_rows": 40_000}, 1.0)
    step.add({"assets": 1, "rows": 10_000}, 2.0)
    display.show([step])
    drawn = stream.getvalue()
    assert "write" in drawn
    assert "25%" in drawn
    assert "1/4 assets" in drawn
    step.add({"assets": 3, "rows": 30_000}, 3.0)
    display.close([step])
    assert "100%" in stream.getvalue()


def test_watching_draws_what_came_last(tmp_path):
    stream = io.StringIO()
    with watching(str(tmp_path), stream):
        append(tmp_path / "a.jsonl", {"stage": "scan", "assets": 2, "total_assets": 2})
        append(tmp_path / "a.jsonl", {"stage": "verify", "assets": 2, "rows": 30})
    text = stream.getvalue()
    assert "scan: 2 files" in text
    assert "verify: 2 shards, 30 rows" in text
