"""The watchdog, in processes that need no TensorFlow."""

import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time

import pytest

from beamfeed.trainer.cluster.watchdog import Watchdog, answers, is_pending

BEGIN = """
import signal, sys, time
from beamfeed.trainer.cluster.watchdog import Watchdog
watchdog = Watchdog(sys.argv[2:], 0, float(sys.argv[1]))
with watchdog.watching():
    watchdog.alive("connecting")
    print("ready", flush=True)
"""


BLOCKING = """
import signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print(flush=True)
time.sleep(30)
"""


@pytest.fixture
def start(root, free_ports):
    """Runs code under a watchdog of two workers of which the other never comes, or does nothing but answer.

    It waits for so many seconds.
    """
    running = []

    def run(code: str, other: str | None = None, limit: float = 1.0) -> subprocess.Popen:
        addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
        addresses[1] = other or addresses[1]
        body = "".join(f"    {line}\n" for line in code.splitlines())
        process = subprocess.Popen(
            [sys.executable, "-c", BEGIN + body, str(limit), *addresses],
            cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        running.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield run
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def listener():
    """An address whose connections the system takes, and no process: as of one that is stopped."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        yield f"127.0.0.1:{one.getsockname()[1]}"


@pytest.fixture
def greeter():
    """The address of something that says a word to whoever connects."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Greeting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class Greeting(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"!")


def end(process: subprocess.Popen) -> tuple[int, str]:
    _, errors = process.communicate(timeout=30)
    return process.returncode, errors


def test_without_a_sign_of_life_the_process_ends(start):
    code, errors = end(start("time.sleep(20)"))
    assert code == -signal.SIGUSR1
    assert errors.startswith("worker 0: waited 1 s for the other workers (connecting): worker 1 (127.0.0.1:")
    assert "does not answer" in errors
    assert errors.count("\n") == 1


def test_signs_of_life_keep_it(start):
    assert end(start("for _ in range(20): time.sleep(0.1); watchdog.alive('training')")) == (0, "")


def test_alone_it_may_take_its_time(start):
    assert end(start("watchdog.alone('export')\ntime.sleep(2.5)")) == (0, "")


def test_what_takes_long_may_as_long_as_the_others_are_there(start, listener):
    assert end(start("watchdog.long('compiling')\ntime.sleep(3.5)", other=listener)) == (0, "")


def test_one_that_is_gone_is_noticed_in_what_takes_long(start):
    code, errors = end(start("watchdog.long('compiling')\ntime.sleep(20)"))
    assert code == -signal.SIGUSR1
    assert errors.startswith("worker 0: waited 1 s for the other workers (compiling): worker 1 (127.0.0.1:")


@pytest.mark.slow
def test_what_takes_long_has_an_end_too(start, greeter):
    code, errors = end(start("watchdog.long('compiling')\ntime.sleep(30)", other=greeter, limit=0.5))
    assert code == -signal.SIGUSR1
    assert "waited 5 s for the other workers (compiling): all answer, but one of them does not go on" in errors


@pytest.mark.slow
def test_a_worker_that_takes_connections_and_says_nothing_is_named(start, listener):
    code, errors = end(start("time.sleep(20)", other=listener))
    assert code == -signal.SIGUSR1
    assert f"(connecting): worker 1 ({listener}) is frozen; started again" in errors


def test_frozen_workers_come_before_those_that_ended_meanwhile(listener, greeter, free_ports):
    gone = f"127.0.0.1:{free_ports(1)[0]}"
    watchdog = Watchdog((gone, gone, greeter, listener, listener), 0)
    frozen = f"worker 3 ({listener}), worker 4 ({listener}) are frozen"
    assert watchdog.describe_others() == f"{frozen}; worker 1 ({gone}) does not answer"


def test_a_step_that_takes_longer_than_the_limit_has_ten_times_what_the_last_took(start):
    assert end(start("watchdog.alive('training', takes=0.3)\ntime.sleep(2.5)")) == (0, "")
    assert end(start("watchdog.alive('training', takes=0.15)\ntime.sleep(20)"))[0] == -signal.SIGUSR1


def test_sigterm_while_it_waits_for_others_ends_it(start):
    process = start("for _ in range(100): time.sleep(0.1); watchdog.alive('connecting')")
    process.send_signal(signal.SIGTERM)
    code, errors = end(process)
    assert code == -signal.SIGKILL
    # The sign of life may still be in the pipe.
    assert errors in ("worker 0: asked to stop (connecting)\n", "worker 0: asked to stop (start)\n")


def test_sigterm_asks_to_stop_once_it_can_be_saved(start):
    process = start(
        "watchdog.save_on_sigterm()\n"
        "print('saving', flush=True)\n"
        "while not watchdog.stop_asked: time.sleep(0.05); watchdog.alive('training')\n"
        "sys.exit(7)"
    )
    assert process.stdout.readline() == "saving\n"
    process.send_signal(signal.SIGTERM)
    assert end(process) == (7, "")


def test_a_signal_that_came_before_is_not_lost(start):
    process = start(
        "time.sleep(0.5)\n"
        "watchdog.save_on_sigterm()\n"
        "while not watchdog.stop_asked: time.sleep(0.05); watchdog.alive('training')\n"
        "sys.exit(7)"
    )
    process.send_signal(signal.SIGTERM)
    code, errors = end(process)
    assert code in (7, -signal.SIGKILL), errors


def test_a_lone_worker_needs_none():
    with Watchdog().watching() as watchdog:
        watchdog.alive("training")
        assert not watchdog.stop_asked


def test_who_answers():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        here = f"127.0.0.1:{listener.getsockname()[1]}"
        assert answers(here)
    assert not answers(here)
    assert not answers("nonsense")
    assert Watchdog((here, here, here), 0).describe_others().endswith("do not answer")


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="Linux tells which signals are pending")
def test_pending_signals_are_seen():
    process = subprocess.Popen(
        [sys.executable, "-c", BLOCKING],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        process.stdout.readline()
        assert not is_pending(process.pid, signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        assert is_pending(process.pid, signal.SIGTERM)
    finally:
        process.kill()
        process.communicate()
    assert not is_pending(process.pid, signal.SIGTERM)


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="Linux tells which signals are pending")
def test_a_signal_that_is_not_blocked_will_be_taken():
    """On a busy machine a process may be told of it later; a stopped one is as late as can be."""
    waits = "import signal, time; signal.signal(signal.SIGTERM, print); print('on', flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", waits], stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
            assert "ShdPnd:\t0000000000004000\n" in file.read()
        assert not is_pending(process.pid, signal.SIGTERM)
    finally:
        process.kill()
        process.communicate()
