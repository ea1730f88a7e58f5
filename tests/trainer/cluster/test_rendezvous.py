"""Workers that know only where worker 0 is find each other, over real sockets."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from beamfeed.contract.cluster.worker_info import WorkerInfo
from beamfeed.contract.errors import UserError
from beamfeed.trainer.cluster.rendezvous import Missing, free_port, join_address, reachable, resolve, split_address


@pytest.fixture
def port():
    with free_port(0) as holder:
        return holder.getsockname()[1]


def joining(port, worker, workers, host="127.0.0.1"):
    return WorkerInfo(worker, workers, (), "torchrun", f"{host}:{port}")


def outcome(one, seconds):
    try:
        return resolve(one, seconds)
    except (UserError, Missing) as error:
        return error


def meet(places, seconds=20.0, late=None):
    """What comes of each, all at once, but for one that begins when the others have met."""
    with ThreadPoolExecutor(len(places) + 1) as pool:
        futures = [pool.submit(outcome, one, seconds) for one in places]
        if late:
            time.sleep(0.6)
            futures.append(pool.submit(outcome, late, seconds))
        return [future.result() for future in futures]


def say(port, data, keep_open=False):
    """Connects as a stranger, says this, and returns the answer."""
    end = time.monotonic() + 10
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=10)
            break
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.02)
    connection.sendall(data)
    if keep_open:
        return connection
    with connection:
        return connection.makefile("rb").readline()


def hello(rank, workers, address="127.0.0.1:9"):
    return json.dumps({"beamfeed": 1, "rank": rank, "workers": workers, "address": address}).encode() + b"\n"


def test_nothing_to_find_out():
    for known in (WorkerInfo(), WorkerInfo(1, 2, ("a:1", "b:1"), "TF_CONFIG")):
        assert resolve(known, 0.0) is known


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_all_get_the_same_list(port, host):
    found = meet([joining(port, worker, 4, host) for worker in range(4)])
    assert [one.index for one in found] == [0, 1, 2, 3]
    assert {one.addresses for one in found} == {found[0].addresses}
    assert len(set(found[0].addresses)) == 4
    assert {split_address(address)[0] for address in found[0].addresses} <= {"127.0.0.1", "::1"}
    assert f"127.0.0.1:{port}" not in found[0].addresses


def test_worker_0_may_come_last(port):
    with ThreadPoolExecutor(1) as pool:
        early = pool.submit(resolve, joining(port, 1, 2), 20.0)
        time.sleep(0.6)
        assert resolve(joining(port, 0, 2), 20.0).addresses == early.result().addresses


def test_those_who_do_not_come_are_named(port):
    chief, other = meet([joining(port, 0, 4), joining(port, 2, 4)], seconds=1.0)
    told = f"workers 1, 3 of 4 did not come to 127.0.0.1:{port} within 1 seconds"
    assert isinstance(chief, Missing)
    assert isinstance(other, Missing)
    assert str(chief) == str(other) == told


def test_a_worker_0_that_does_not_come_is_told_by_the_others(port):
    with pytest.raises(Missing, match=rf"worker 1 did not reach worker 0 at 127.0.0.1:{port} within 0.5 seconds: .*ef"):
        resolve(joining(port, 1, 2), 0.5)


def test_a_name_that_is_not_known(port):
    with pytest.raises(Missing, match=r"did not reach worker 0 at no-such-host\.invalid"):
        resolve(joining(port, 1, 2, "no-such-host.invalid"), 0.3)


def test_a_server_that_is_not_worker_0():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer():
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(Missing, match="what answers there is not worker 0"):
            resolve(joining(port, 1, 2), 0.0)
        thread.join()


def test_a_port_that_is_taken():
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(
            UserError, match=rf"^torchrun: worker 0 cannot listen on port {port}: Address already in use$"
        ):
            resolve(joining(port, 0, 2), 5.0)


def test_a_rank_that_comes_twice_is_told_to_those_who_have_come(port):
    results = meet([joining(port, worker, 4) for worker in (0, 1, 2)], late=joining(port, 2, 4))
    assert all(isinstance(one, UserError) for one in results), results
    assert len({str(one) for one in results}) == 1
    assert str(results[0]).startswith("torchrun: rank 2 came twice, at 127.0.0.1:")


def test_a_second_rank_0(port):
    with ThreadPoolExecutor(1) as pool:
        chief = pool.submit(outcome, joining(port, 0, 3), 20.0)
        answer = json.loads(say(port, hello(0, 3)))
        assert "rank 0 came twice" in str(chief.result())
    assert answer["mistake"]
    assert answer["error"] == str(chief.result())


def test_another_number_of_workers_is_told_to_those_who_have_come(port):
    results = meet([joining(port, 0, 4), joining(port, 1, 4)], late=joining(port, 2, 5))
    assert all(isinstance(one, UserError) for one in results), results
    assert "worker 2 at 127.0.0.1:" in str(results[2])
    assert str(results[0]).endswith("counts 5 workers, worker 0 counts 4; all must be given the same number")


@pytest.mark.parametrize(
    "rubbish",
    [
        b"",
        b"\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x00\xff" * 50 + b"\n",
        b"[" * 4000 + b"\n",
        b"x" * 20_000,
        b'{"rank": 1, "workers": 2, "address": "a:1"}\n',
        b'{"beamfeed": 1}\n',
        hello(True, 2),
        hello(5, 2),
        hello(-1, 2),
        hello("1", 2),
        hello(1, 2, "nowhere"),
        hello(1, 2, 3),
    ],
    ids=lambda rubbish: repr(rubbish[:30]),
)
def test_a_stray_connection_breaks_nothing(port, rubbish):
    silent = []

    def strays():
        silent.append(say(port, b"", keep_open=True))
        silent.append(say(port, b'{"beamfeed"', keep_open=True))
        stray = say(port, rubbish, keep_open=True)
        with suppress(OSError):  # it is closed already
            stray.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):  # closed before all of it was read
            assert stray.recv(100) == b""
        stray.close()

    with ThreadPoolExecutor(1) as pool:
        chief = pool.submit(resolve, joining(port, 0, 2), 20.0)
        strays()
        other = resolve(joining(port, 1, 2), 20.0)
        assert chief.result().addresses == other.addresses
    for one in silent:
        one.close()


def test_a_worker_that_starts_again_while_the_others_wait(port):
    with ThreadPoolExecutor(2) as pool:
        chief = pool.submit(resolve, joining(port, 0, 3), 20.0)
        first = say(port, hello(1, 3), keep_open=True)
        time.sleep(0.2)
        first.close()
        time.sleep(0.2)
        again = pool.submit(resolve, joining(port, 1, 3), 20.0)
        last = resolve(joining(port, 2, 3), 20.0)
        assert chief.result().addresses == again.result().addresses == last.addresses
        assert "127.0.0.1:9" not in last.addresses


def test_processes(port):
    program = (
        "import os\nfrom beamfeed.contract.cluster.environment import read_worker_info\n"
        "from beamfeed.trainer.cluster.rendezvous import resolve\n"
        "print(*resolve(read_worker_info(os.environ), 60).addresses)\n"
        "import sys; assert 'tensorflow' not in sys.modules"
    )
    common = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "WORLD_SIZE": "3"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, **common, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    try:
        told = [process.communicate(timeout=60)[0].split() for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert told[0] == told[1] == told[2]
    assert len(set(told[0])) == 3


def test_reachable_on_one_machine():
    assert reachable({1: "127.0.0.1:5"}, {1: "::ffff:127.0.0.1"}, 4) == ["127.0.0.1:4", "127.0.0.1:5"]


def test_reachable_from_other_machines():
    addresses = {2: "10.0.0.7:6", 1: "127.0.0.1:5", 3: "[fd00::3]:7"}
    hosts = {1: "127.0.0.1", 2: "::ffff:10.0.0.5", 3: "fd00::5"}
    assert reachable(addresses, hosts, 4) == ["10.0.0.5:4", "10.0.0.5:5", "10.0.0.7:6", "[fd00::3]:7"]


@pytest.mark.parametrize(
    ("host", "address"),
    [("10.0.0.1", "10.0.0.1:5"), ("::ffff:10.0.0.1", "10.0.0.1:5"), ("fd00::1", "[fd00::1]:5"), ("a.b", "a.b:5")],
)
def test_addresses(host, address):
    assert join_address(host, 5) == address
    assert split_address(address) == (host.removeprefix("::ffff:"), 5)
