"""How workers that know only where worker 0 is tell each other their addresses.

Worker 0 listens at `worker.master`. Every other worker connects, says who it is and where its
TensorFlow server will listen, and is sent the list of all addresses once all have come:

    -> {"beamfeed": 1, "rank": 2, "workers": 3, "address": "10.0.0.7:41235"}
    <- {"beamfeed": 1, "addresses": ["10.0.0.5:39001", "10.0.0.6:40112", "10.0.0.7:41235"]}
    <- {"beamfeed": 1, "error": "...", "mistake": true}      to all who have come, if it cannot be

One JSON object a line, each way. A connection that says anything else is closed and forgotten.
"""

import json
import os
import re
import selectors
import socket
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import ClassVar, NoReturn

from beamfeed.contract.cluster.worker_info import WorkerInfo
from beamfeed.contract.errors import JobFailed, UserError

RETRY_SECONDS = 0.2
CONNECT_SECONDS = 5.0
GRACE_SECONDS = 5.0
LONGEST_HELLO = 4096
LONGEST_LIST = 16 * 2**20


class Missing(JobFailed):
    """Not all workers have come in time. Another start may find them."""

    MARK: ClassVar[str] = ""


def resolve(worker: WorkerInfo, deadline_seconds: float) -> WorkerInfo:
    """Fills in the addresses of the workers if they are missing; all workers must call it.

    The ports are free when this returns, but not held: TensorFlow must bind them soon.

    Raises:
      UserError: if two workers have the same rank or another number of workers, or worker 0 cannot listen.
      Missing: if not all have come in time; it names those that have not.
    """
    if worker.count == 1 or worker.addresses:
        return worker
    assert worker.master is not None
    with free_port(split_address(worker.master)[1]) as holder:  # held to the end: workers of one machine differ
        port = holder.getsockname()[1]
        addresses = (
            _collect(worker, port, deadline_seconds) if worker.is_chief else _ask(worker, port, deadline_seconds)
        )
    return replace(worker, addresses=tuple(addresses))


def free_port(used: int) -> socket.socket:
    """A socket bound to a port on which nobody listens now, and which is not `used`, where worker 0 will."""
    while True:
        holder = socket.socket()
        holder.bind(("", 0))
        if holder.getsockname()[1] != used:
            return holder
        holder.close()


def join_address(host: str, port: int) -> str:
    """host:port; an IPv6 host in brackets, an IPv4 one that came through an IPv6 socket as itself."""
    with suppress(ValueError):
        ip = ip_address(host)
        if ip.version == 6:
            return f"{ip.ipv4_mapped}:{port}" if ip.ipv4_mapped else f"[{ip}]:{port}"
    return f"{host}:{port}"


def split_address(address: str) -> tuple[str, int]:
    """host:port as host, without brackets, and port."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def reachable(addresses: dict[int, str], hosts: dict[int, str], port: int) -> list[str]:
    """The list of all addresses, worker 0 first.

    A worker on worker 0's machine may have come over the loopback, where no other machine finds it.
    So it gets the host under which the others have found worker 0, and worker 0 itself the same.

    Args:
      addresses: what the other workers have said, by rank.
      hosts: worker 0's own host, as each of their connections shows it.
      port: of worker 0's TensorFlow server.
    """
    ranks = sorted(addresses)
    outside = [hosts[rank] for rank in ranks if not _is_loopback(hosts[rank])]
    host = outside[0] if outside else hosts[ranks[0]]
    ordered = [join_address(host, port)]
    for rank in ranks:
        their_host, their_port = split_address(addresses[rank])
        ordered.append(join_address(host if outside and _is_loopback(their_host) else their_host, their_port))
    return ordered


def _is_loopback(host: str) -> bool:
    try:
        ip = ip_address(host)
    except ValueError:
        return host == "localhost"
    return (getattr(ip, "ipv4_mapped", None) or ip).is_loopback


# Worker 0


@dataclass(eq=False)
class _Guest:
    """A connection to worker 0; a stray one until its first line is read."""

    connection: socket.socket
    peer: str
    received: bytes = b""
    rank: int | None = None
    address: str = ""  # of its TensorFlow server


@dataclass
class _Hall:
    """Those who have come to worker 0."""

    worker: WorkerInfo
    seats: dict[int, _Guest] = field(default_factory=dict)  # by rank

    @property
    def missing(self) -> list[int]:
        return [rank for rank in range(1, self.worker.count) if rank not in self.seats]

    def hear(self, guest: _Guest) -> bool:
        """Reads what there is to read. False: the connection is to be closed."""
        try:
            data = guest.connection.recv(LONGEST_HELLO)
        except OSError:
            data = b""
        if guest.rank is not None:
            if not data:  # it came and went; its next start may come again
                del self.seats[guest.rank]
            return bool(data)
        guest.received += data
        line, newline, _ = guest.received.partition(b"\n")
        if not newline:
            return bool(data) and len(line) < LONGEST_HELLO
        hello = _parse(line) or {}
        rank, workers, address = hello.get("rank"), hello.get("workers"), hello.get("address")
        if type(rank) is not int or type(workers) is not int or not 0 <= rank < workers:
            return False
        if not isinstance(address, str) or not re.fullmatch(r"\S+:\d{1,5}", address, re.ASCII):
            return False
        if workers != self.worker.count:
            self._refuse(
                guest,
                f"worker {rank} at {guest.peer} counts {workers} workers, "
                f"worker 0 counts {self.worker.count}; all must be given the same number",
            )
        if rank == 0 or rank in self.seats:
            first = self.seats[rank].peer if rank else self.worker.master
            self._refuse(
                guest, f"rank {rank} came twice, at {first} and at {guest.peer}; each worker needs its own rank"
            )
        guest.rank, guest.address = rank, address
        self.seats[rank] = guest
        return True

    def _refuse(self, guest: _Guest, reason: str) -> NoReturn:
        error = UserError(f"{self.worker.source}: {reason}")
        with suppress(OSError):  # the others are told as they are of every error
            _send(guest.connection, {"error": str(error), "mistake": True})
        raise error

    def send(self, **message: object) -> None:
        """Sends a line to all who have come; one who has gone meanwhile is missed by TensorFlow."""
        for guest in self.seats.values():
            with suppress(OSError):
                _send(guest.connection, message)


def _collect(worker: WorkerInfo, port: int, deadline_seconds: float) -> list[str]:
    """Worker 0's part: waits for the others and sends them the list."""
    hall = _Hall(worker)
    end = time.monotonic() + deadline_seconds
    with ExitStack() as stack:
        server = stack.enter_context(_listen(worker))
        selector = stack.enter_context(selectors.DefaultSelector())
        selector.register(server, selectors.EVENT_READ)
        try:
            while hall.missing:
                if time.monotonic() >= end:
                    raise Missing(
                        f"{_workers(hall.missing)} of {worker.count} did not come to {worker.master} "
                        f"within {deadline_seconds:g} seconds"
                    )
                for key, _ in selector.select(timeout=max(0.0, min(1.0, end - time.monotonic()))):
                    if key.fileobj is server:
                        with suppress(OSError):  # gone before it was let in
                            connection, peer = server.accept()
                            stack.callback(connection.close)
                            guest = _Guest(connection, join_address(peer[0], peer[1]))
                            selector.register(connection, selectors.EVENT_READ, guest)
                    elif not hall.hear(key.data):
                        selector.unregister(key.fileobj)
                        key.data.connection.close()
        except (UserError, Missing) as error:
            hall.send(error=str(error), mistake=isinstance(error, UserError))
            raise
        addresses = reachable(
            {rank: guest.address for rank, guest in hall.seats.items()},
            {rank: guest.connection.getsockname()[0] for rank, guest in hall.seats.items()},
            port,
        )
        hall.send(addresses=addresses)
        return addresses


def _listen(worker: WorkerInfo) -> socket.socket:
    assert worker.master is not None
    _, port = split_address(worker.master)
    try:
        if socket.has_dualstack_ipv6():
            with suppress(OSError):  # a machine may have the protocol and no address of it
                return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", port))
    except OSError as error:
        raise UserError(
            f"{worker.source}: worker 0 cannot listen on port {port}: {os.strerror(error.errno or 0)}"
        ) from None


def _workers(ranks: list[int]) -> str:
    """`worker 2`, `workers 2, 3`; of many, the first ten."""
    names = ", ".join(map(str, ranks[:10])) + (f" and {len(ranks) - 10} more" if len(ranks) > 10 else "")
    return f"worker{'s' if len(ranks) > 1 else ''} {names}"


# The other workers


def _ask(worker: WorkerInfo, port: int, deadline_seconds: float) -> list[str]:
    """The part of every other worker: tells worker 0 its address and waits for the list."""
    assert worker.master is not None
    end = time.monotonic() + deadline_seconds
    while True:
        try:
            with socket.create_connection(split_address(worker.master), timeout=CONNECT_SECONDS) as connection:
                # Without a listener, a connection within a machine can by chance meet itself.
                if connection.getsockname() == connection.getpeername():
                    raise ConnectionRefusedError("nobody listens there")
                address = join_address(connection.getsockname()[0], port)
                _send(connection, {"rank": worker.index, "workers": worker.count, "address": address})
                # Worker 0 is there and ends by its own deadline, which may have begun just now.
                answer = _parse(_read_line(connection, time.monotonic() + deadline_seconds + GRACE_SECONDS))
        except OSError as error:
            answer, reason = None, error.strerror or str(error)
        else:
            reason = "what answers there is not worker 0"
        if answer is not None and "error" in answer:
            raise UserError(answer["error"]) if answer.get("mistake") else Missing(answer["error"])
        if answer is not None and len(answer.get("addresses", ())) == worker.count:
            return answer["addresses"]
        if time.monotonic() >= end:
            raise Missing(
                f"worker {worker.index} did not reach worker 0 at {worker.master} "
                f"within {deadline_seconds:g} seconds: {reason}"
            )
        time.sleep(RETRY_SECONDS)


def _read_line(connection: socket.socket, end: float) -> bytes:
    received = b""
    while not received.endswith(b"\n") and len(received) < LONGEST_LIST:
        connection.settimeout(max(0.01, end - time.monotonic()))
        data = connection.recv(2**16)
        if not data:
            break
        received += data
    return received


# Lines


def _send(connection: socket.socket, message: dict) -> None:
    connection.settimeout(CONNECT_SECONDS)
    connection.sendall(json.dumps({"beamfeed": 1, **message}).encode() + b"\n")


def _parse(line: bytes) -> dict | None:
    """The message in a line, or None if it is not one of ours."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) and message.get("beamfeed") == 1 else None
