"""What a runner says of an error in a worker becomes a line and an exit code again."""

import pytest

from beamfeed.contract.dataset.manifest import OldFormat
from beamfeed.contract.errors import Failure, JobFailed, UserError, failure_of, find_failure

FRAMES = 'Traceback (most recent call last):\n  File "steps.py", line 7, in process\n    raise it\n'
FLINK = """java.lang.RuntimeException: Error received from SDK harness for instruction 3: {text}
\tat org.apache.beam.runners.fnexecution.control.FnApiControlClient.handle(FnApiControlClient.java:180)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: java.lang.RuntimeException: beamfeed has ended
\t... 12 more
"""
HERE = "beamfeed.contract.errors"


STEP = " [while running 'Add']"
AGAIN = "\n\nDuring handling of the above exception, another exception occurred:\n\n"
CAUSED = "\n\nThe above exception was the direct cause of the following exception:\n\n"


def raised(name: str, message: str) -> str:
    return f"{FRAMES}{HERE}.{name}: {message}"


@pytest.mark.parametrize(
    ("text", "message", "code"),
    [
        (raised("JobFailed", f"job failed: 3 of 4{STEP}\n\nmore"), "job failed: 3 of 4", 1),
        (raised("UserError", f"steps: 'a' is no column{STEP}"), "steps: 'a' is no column", 2),
        (raised("UserError", f"it's \"odd\" '){STEP}"), "it's \"odd\" ')", 2),
        (raised("UserError", f"one\n  two\n\nthree{STEP}\nnotes"), "one two three", 2),
        (raised("UserError", f"a [while running 'b']{STEP}"), "a [while running 'b']", 2),
        (raised("UserError", f"no step{AGAIN}{FRAMES}OSError: closed{STEP}"), "no step", 2),
        (raised("UserError", "first") + CAUSED + raised("JobFailed", f"job failed: last{STEP}"), "job failed: last", 1),
        (f"{FRAMES}RuntimeError: {OldFormat.__module__}.OldFormat: of format 2{STEP}", "of format 2", 2),
        (FLINK.format(text=raised("JobFailed", f"job failed: x{STEP}")), "job failed: x", 1),
        (FLINK.format(text=raised("JobFailed", "job failed: outside of a step")), "job failed: outside of a step", 1),
        (raised("UserError", f"yours: {FRAMES}ValueError: x{STEP}"),
         'yours: Traceback (most recent call last): File "steps.py", line 7, in process raise it ValueError: x', 2),
        ("RuntimeError('" + raised("UserError", f"x{STEP}").replace("\n", "\\n") + "')", "x", 2),
    ],
)  # fmt: skip
def test_an_error_of_ours_is_found_in_a_runners_text(text, message, code):
    assert find_failure(text) == Failure(message, code)


@pytest.mark.parametrize(
    "text",
    ["", "Traceback", f"{FRAMES}OSError: No space left [while running 'Add']", f"see {HERE}.UserError for more",
     f"    raise {HERE}.UserError('x')"],
)  # fmt: skip
def test_what_is_none_of_ours_is_not_found(text):
    assert find_failure(text) is None


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (UserError("a: is wrong\nb: is too"), ("a: is wrong\nb: is too", 2)),
        (JobFailed("too many"), ("job failed: too many", 1)),
        (OldFormat("of format 2", None), ("of format 2", 2)),
        (RuntimeError(f"{FRAMES}{HERE}.UserError: x [while running 'A']"), ("x", 2)),
        (RuntimeError(f"{FRAMES}OSError: [Errno 28] No space left on device: '/x' [while running 'A']\n\nNote: this"),
         ("job failed: OSError: [Errno 28] No space left on device: '/x'", 1)),
        (OSError(28, "No space left on device", "/x"),
         ("job failed: OSError: [Errno 28] No space left on device: '/x'", 1)),
        (MemoryError(), ("job failed: MemoryError", 1)),
        (ValueError("two\nlines"), ("job failed: ValueError: two", 1)),
    ],
)  # fmt: skip
def test_every_exception_is_told(error, told):
    assert failure_of(error) == told


def test_a_message_is_text_that_every_runner_can_send():
    name = "m\udcff.parquet"  # as Python reads a file name that is not UTF-8
    assert str(UserError(f"{name}: is odd")).encode() == b"m\\udcff.parquet: is odd"
    assert str(JobFailed(f"{name}: is odd")).encode() == b"job failed: m\\udcff.parquet: is odd"


def test_what_leads_up_to_a_reason_is_not_the_reason():
    told = """Graph execution error:

Detected at node dense/MatMul defined at (most recent call last):
  File "model.py", line 8, in call

In[0] mismatch In[1] shape: 3 vs. 4
\t [[{{node dense/MatMul}}]] [Op:__inference_step_12]"""
    assert failure_of(RuntimeError(told)).message == "job failed: RuntimeError: In[0] mismatch In[1] shape: 3 vs. 4"
    assert failure_of(RuntimeError("why:")).message == "job failed: RuntimeError: why:"
    assert failure_of(RuntimeError("")).message == "job failed: RuntimeError"
