"""Stderr while runs go on: each has its own in its log, and in the end it is what it was."""

import io
import sys
import threading

from beamfeed.launcher.display.copied import copying_stderr, shown_stderr
from beamfeed.launcher.display.lines import Lines


def test_runs_in_threads_have_what_is_their_own(monkeypatch):
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    logs: dict[str, list[bytes]] = {"first": [], "second": []}
    began, ended = threading.Event(), threading.Event()

    def second():
        with copying_stderr(logs["second"].append):
            Lines().say("shown")
            sys.stderr.write("second ")
            began.set()
            ended.wait(10)
            sys.stderr.write("alone ")

    thread = threading.Thread(target=second)
    with copying_stderr(logs["first"].append):
        thread.start()
        assert began.wait(10)
        sys.stderr.write("first ")
        anyone = threading.Thread(target=sys.stderr.write, args=("anyone ",))
        anyone.start()
        anyone.join()
        assert shown_stderr() is stderr
    assert sys.stderr is not stderr
    ended.set()
    thread.join()
    assert sys.stderr is stderr
    assert logs == {"first": [b"first ", b"anyone "], "second": [b"second ", b"anyone ", b"alone "]}
    assert stderr.getvalue().endswith("shown\nsecond first anyone alone ")
