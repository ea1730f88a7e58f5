"""Errors of a worker, as the local runner hands them on: whatever the message, a line and an exit code."""

import threading
import time
import unicodedata

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from beamfeed.contract.dataset.manifest import OldFormat
from beamfeed.contract.errors import JobFailed, UserError, failure_of
from beamfeed.pipelines.preprocess import main_of
from beamfeed.pipelines.runner import choose_runner

pytestmark = pytest.mark.filterwarnings("ignore")  # threads of a runner that ends before them

ODD = [
    "source.time: 'x' is \"not\" a number)",
    "one\ntwo\n\n  three\n",
    "a [while running 'b'] c",
    "a [while running 'b']\nc",
    'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: inner',
    "beamfeed.contract.errors.JobFailed: job failed: quoted",
    "During handling",
    "it's \\n {0} %s \\",
    "x" * 100_000,
    "ä\u2028\r\x00\x1b[0m☃",
    "m\udcff.parquet: is no text",
]
PIECES = st.sampled_from(["\n", "'", '"', "\\", " [while running 'x']", "Traceback", ": ", "  at org.x(", "é", "a"])


class Fails(beam.DoFn):
    def __init__(self, kind: str, message: str):
        self._kind, self._message = kind, message

    def process(self, _):
        if self._kind == "old format":
            raise OldFormat(self._message, data="data-0")  # its constructor is not that of UserError
        raise {"mistake": UserError, "failure": JobFailed}[self._kind](self._message)


def run(kind: str, message: str, threads: int):
    options = PipelineOptions([f"--direct_num_workers={threads}"])
    pipeline = beam.Pipeline(choose_runner(options, threads), options=options)
    _ = pipeline | beam.Create([1]) | "Fail it's" >> beam.ParDo(Fails(kind, message)) | beam.Map(lambda x: x)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - a worker in this process raises its own
        pipeline.run()
    return failure_of(caught.value)


def letters(text: str) -> str:
    """All but the white space, of which a line keeps less; what a terminal would obey or not show as Python has it."""

    def is_hidden(letter: str) -> bool:
        turns = unicodedata.bidirectional(letter) in ["LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"]
        marks = letter in "\u061c\u200e\u200f\ufeff\ufffe\uffff"
        return letter not in "\t\n" and (unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") or turns or marks)

    return "".join("".join(repr(c)[1:-1] if is_hidden(c) else c for c in text).split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "code", "threads"), [("mistake", 2, 1), ("mistake", 2, 2), ("failure", 1, 2), ("old format", 2, 2)]
)
def test_an_odd_message_is_one_line_with_its_code(kind, code, threads):
    for message in ODD:
        told = run(kind, message, threads)
        assert told.code == code
        assert len(told.message.splitlines()) == 1
        assert letters(told.message).removeprefix("jobfailed:") == letters(message)


@pytest.mark.slow
@given(st.lists(PIECES | st.text(max_size=8), min_size=1, max_size=12).map("".join))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example("\n\n")
@example(" ")
def test_any_message_is_one_line_with_its_code(message):
    told = run("mistake", message, 1)
    assert told.code == 2
    assert len(told.message.splitlines()) <= 1
    assert letters(told.message) == letters(message)


def test_what_fails_while_the_process_is_ended_says_nothing(monkeypatch, capfd):
    """A runner that is cancelled fails, and would be told as a failure before all is undone."""
    from beamfeed.contract import ending as ends
    from beamfeed.contract.options import COMPACT

    end, undone, cancelled, left = ends.Ending(), threading.Event(), threading.Event(), threading.Event()
    monkeypatch.setattr(ends, "leave", lambda code: left.set())

    def give_back():
        time.sleep(0.5)
        undone.set()

    def work(*_):
        with end.undoing(give_back), end.undoing(cancelled.set):
            threading.Thread(target=end.end, args=(143,), daemon=True).start()
            cancelled.wait()
            raise JobFailed("the job is cancelled")

    command = ["--job", "job.yaml"]
    threading.Thread(target=main_of(COMPACT, work), args=(command, end), daemon=True).start()
    assert left.wait(10)
    assert undone.is_set()
    assert capfd.readouterr() == ("", "")
