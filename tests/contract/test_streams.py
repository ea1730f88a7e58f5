"""What a program prints where nobody reads, or nothing can be written: it goes on, and its exit code stays."""

import os
import select
import subprocess
import sys

import pytest

PRINTS = """
import sys
from beamfeed.contract import streams
streams.take_over()
for _ in range(3):
    print("a line of stdout", flush=True)
    print("a line of stderr", file=sys.stderr)
    print("more", end="")
sys.exit(streams.flushed(int(sys.argv[1])))
"""


def run(root, redirect: str, code: int = 0) -> subprocess.CompletedProcess:
    """Runs the program behind a redirection of the shell's."""
    command = ["sh", "-c", f'exec "$@" {redirect}', "sh", sys.executable, "-c", PRINTS, str(code)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("descriptor", [1, 2])
def test_a_reader_that_has_gone_changes_nothing(root, descriptor, code):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ends = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, ["stdout", "stderr"][descriptor - 1]: writer}
        done = subprocess.run([sys.executable, "-c", PRINTS, str(code)], cwd=root, text=True, timeout=60, **ends)
    finally:
        os.close(writer)
    assert done.returncode == code
    if descriptor == 1:
        assert done.stderr == "a line of stderr\n" * 3
    else:
        assert done.stdout == "a line of stdout\nmore" * 3


@pytest.mark.parametrize("redirect", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_closed_and_full_ones_change_nothing(root, redirect):
    for code in (0, 1):
        assert run(root, redirect, code).returncode == code


def test_a_closed_one_is_not_the_next_file(root, tmp_path):
    """What is printed must not end up in whatever is opened next."""
    code = f"""
from beamfeed.contract import streams
streams.take_over()
with open({str(tmp_path / "data")!r}, "w") as file:
    import sys
    assert file.fileno() > 2
    print("oops", file=sys.stderr, flush=True)
    file.write("data")
"""
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-c", code]
    assert subprocess.run(command, cwd=root, timeout=60).returncode == 0
    assert (tmp_path / "data").read_text() == "data"


def test_output_that_somebody_wanted_and_did_not_get_is_a_failure(root):
    done = run(root, ">/dev/full")
    assert done.returncode == 1
    assert done.stderr == "a line of stderr\n" * 3 + "stdout: cannot be written: No space left on device\n"
    assert run(root, ">/dev/full", 2).returncode == 2


def test_what_cannot_be_encoded_is_written_all_the_same(root):
    code = 'from beamfeed.contract import streams; streams.take_over(); print("m\\udcff \\u2603")'
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, timeout=60,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, b"m\\udcff \\u2603\n")


def test_a_program_that_reads_gets_each_line_at_once():
    code = "import sys; from beamfeed.contract import streams; streams.take_over(); print('now'); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert select.select([process.stdout], [], [], 30)[0]
        assert process.stdout.readline() == b"now\n"
        process.stdin.close()
