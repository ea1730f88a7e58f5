"""Terminals of several kinds: those that are resized, that know no colours, and that know nothing."""

import os
import re
import shlex
import shutil
import subprocess
import time

import pytest
from stand_ins import STEPS, WAITING, check_areas, command, seen, start, without_times


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


@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
def test_a_terminal_that_breaks_lines_when_it_gets_narrower(tmp_path, root):
    tmux = ["tmux", "-S", str(tmp_path / "socket"), "-f", os.devnull]
    go = tmp_path / "go"
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

    options = [part for name, value in env.items() for part in ("-e", f"{name}={value}")]
    subprocess.run(
        [*tmux, "new-session", "-d", "-x", "100", "-y", "20", *options, f"{shlex.join(command(WAITING))}; sleep 60"],
        check=True,
    )
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
