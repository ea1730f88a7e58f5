"""What a runner says of an error in a worker becomes a line and an exit code again."""

import pickle
import sys
import traceback

import pytest

from beamfeed.contract.dataset.manifest import OldFormat
from beamfeed.contract.errors import PARTS, BeamfeedError, Failure, JobFailed, UserError, failure_of, find_failure
from beamfeed.contract.imports import heavy_imports
from beamfeed.contract.text import table
from beamfeed.transforms.rejects import BadInput

FRAMES = 'Traceback (most recent call last):\n  File "steps.py", line 7, in process\n    raise it\n'
FLINK = """java.lang.RuntimeException: Error received from SDK harness for instruction 3: {text}
\tat org.apache.beam.runners.fnexecution.control.FnApiControlClient.handle(FnApiControlClient.java:180)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: java.lang.RuntimeException: beamfeed has ended
\t... 12 more
"""
HERE = "beamfeed.contract.errors"
STEP = " [while running 'Add']"


def in_step(error: BeamfeedError) -> BeamfeedError:
    """As Beam raises it again, with the step in its message."""
    return type(error)(error.args[0] + STEP, *error.args[1:])


def raised(error: Exception, before: Exception | None = None, *, handled: bool = False) -> str:
    """The text of a worker: an error, after another one of which it comes."""
    try:
        try:
            raise before or error
        except Exception as first:
            if handled:
                raise error  # noqa: B904
            raise error from (None if first is error else first)
    except Exception:
        return traceback.format_exc()


@pytest.mark.parametrize(
    ("tell", "message", "code"),
    [
        (lambda: raised(in_step(JobFailed("3 of 4"))) + "\n\nmore", "job failed: 3 of 4", 1),
        (lambda: raised(in_step(UserError("steps: 'a' is no column"))), "steps: 'a' is no column", 2),
        (lambda: raised(in_step(UserError("it's \"odd\" ')"))), "it's \"odd\" ')", 2),
        (lambda: raised(in_step(UserError("one\n  two\n\nthree"))) + "notes", "one two three", 2),
        (lambda: raised(in_step(UserError("a [while running 'b']"))), "a [while running 'b']", 2),
        (lambda: raised(OSError("closed"), in_step(UserError("no step")), handled=True), "no step", 2),
        (lambda: raised(in_step(JobFailed("last")), UserError("first")), "job failed: last", 1),
        (lambda: raised(in_step(OldFormat("of format 2", data="data-0"))), "of format 2", 2),
        (lambda: FLINK.format(text=raised(in_step(JobFailed("x")))), "job failed: x", 1),
        (lambda: FLINK.format(text=raised(JobFailed("outside of a step"))), "job failed: outside of a step", 1),
        (lambda: raised(in_step(UserError(f"yours: {FRAMES}ValueError: x"))),
         'yours: Traceback (most recent call last): File "steps.py", line 7, in process raise it ValueError: x', 2),
        (lambda: raised(in_step(UserError(f"why: {raised(in_step(UserError('x%]'))).split(chr(10))[-2]}"))),
         "why: [beamfeed 2: x%25%5D]", 2),
        (lambda: repr(RuntimeError(repr(raised(in_step(UserError("it's ☃\\n")))))), "it's ☃\\n", 2),
    ],
)  # fmt: skip
def test_an_error_of_ours_is_found_in_a_runners_text(tell, message, code):
    assert find_failure(tell()) == Failure(message, code)


def test_no_word_of_the_text_around_it_matters():
    text = raised(in_step(UserError("x: is wrong")))
    for word in ("Traceback", "most recent call last", HERE, "UserError: ", "while running", "File "):
        text = text.replace(word, "?")
    assert find_failure(text) == Failure("x: is wrong", 2)


def test_an_error_that_a_worker_in_this_process_raises_is_one_line():
    assert failure_of(in_step(UserError("one\n two"))) == Failure("one two", 2)
    assert failure_of(in_step(in_step(JobFailed("one")))) == Failure("job failed: one", 1)
    assert failure_of(in_step(OldFormat("of format 2", data="data-0"))) == Failure("of format 2", 2)
    assert raised(UserError("x")).endswith("UserError: x\n")  # nobody but a person reads it


@pytest.mark.parametrize(
    "text",
    ["", "Traceback", f"{FRAMES}OSError: No space left [while running 'Add']", f"see {HERE}.UserError for more",
     f"    raise {HERE}.UserError('x')"],
)  # fmt: skip
def test_what_is_none_of_ours_is_not_found(text):
    assert find_failure(text) is None


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (UserError("a: is wrong\nb: is too"), ("a: is wrong\nb: is too", 2)),
        (JobFailed("too many"), ("job failed: too many", 1)),
        (OldFormat("of format 2"), ("of format 2", 2)),
        (RuntimeError(f"{FRAMES}{HERE}.UserError: x\n[beamfeed 2: x]\n"), ("x", 2)),
        (RuntimeError(f"{FRAMES}OSError: [Errno 28] No space left on device: '/x' [while running 'A']\n\nNote: this"),
         ("job failed: OSError: [Errno 28] No space left on device: '/x' [while running 'A']", 1)),
        (OSError(28, "No space left on device", "/x"),
         ("job failed: OSError: [Errno 28] No space left on device: '/x'", 1)),
        (MemoryError(), ("job failed: MemoryError", 1)),
        (ValueError("two\nlines"), ("job failed: ValueError: two", 1)),
    ],
)  # fmt: skip
def test_every_exception_is_told(error, message):
    assert failure_of(error) == message


def test_a_message_is_text_that_every_runner_can_send():
    name = "m\udcff.parquet"  # as Python reads a file name that is not UTF-8
    assert str(UserError(f"{name}: is odd")).encode() == b"m\\udcff.parquet: is odd"
    assert str(JobFailed(f"{name}: is odd")).encode() == b"job failed: m\\udcff.parquet: is odd"


def test_what_a_terminal_would_obey_is_told_as_python_writes_it():
    obeyed = "a\x1b]52;c;aGk=\x07\x9b2J\r\u202eb"
    escaped = r"a\x1b]52;c;aGk=\x07\x9b2J\r\u202eb"
    assert str(UserError(f"{obeyed}: is odd\nAnd so on: 温度\u3000ü")) == f"{escaped}: is odd\nAnd so on: 温度\u3000ü"
    assert failure_of(ValueError(obeyed)).message == f"job failed: ValueError: {escaped}"
    assert table([[obeyed, 1], ["a\nb", 2]]) == [f"{escaped}  1", f"{'a' + chr(92) + 'nb':<{len(escaped)}}  2"]
    bad = BadInput(f"{obeyed}.csv", f"column {obeyed}\n", "is missing")
    assert str(bad) == rf"{escaped}.csv: column {escaped}\n: is missing"
    assert (bad.file, bad.reject(None).place) == (f"{obeyed}.csv", rf"column {escaped}\n")
    assert str(pickle.loads(pickle.dumps(bad))) == str(bad)


def test_what_leads_up_to_a_reason_is_not_the_reason():
    told = """Graph execution error:

Detected at node dense/MatMul defined at (most recent call last):
  File "model.py", line 8, in call

In[0] mismatch In[1] shape: 3 vs. 4
\t [[{{node dense/MatMul}}]] [Op:__inference_step_12]"""
    assert failure_of(RuntimeError(told)).message == "job failed: RuntimeError: In[0] mismatch In[1] shape: 3 vs. 4"
    assert failure_of(RuntimeError("why:")).message == "job failed: RuntimeError: why:"
    assert failure_of(RuntimeError("")).message == "job failed: RuntimeError"


def test_what_an_installation_lacks_is_named(root):
    asked = (root / "setup.py").read_text()
    for module, name in PARTS.items():
        failure = failure_of(ModuleNotFoundError(f"No module named {module!r}", name=module))
        assert failure == Failure(f"{name} is not installed; pip install 'beamfeed[all]' installs what is missing", 2)
        assert '    "' + name.lower().replace(" ", "-") in asked
    assert failure_of(ModuleNotFoundError("No module named 'mine'", name="mine")).code == 1


def test_what_is_not_installed_is_named_where_it_is_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "tfx_bsl", None)
    with pytest.raises(UserError, match="tfx-bsl is not installed"), heavy_imports():
        import tfx_bsl  # noqa: F401
