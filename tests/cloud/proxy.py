"""An HTTPS proxy that plays Google's servers and the metadata server of a machine, on a loopback port.

Clients keep their hard-wired host names: they are told to use a proxy and to trust a
throw-away authority. Every other host is refused with 403, so that a leak fails at once.
"""

import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from cloud import accounts
from cloud.dataflow import DATAFLOW_HOST, Dataflow
from cloud.exchange import Request, Response
from cloud.faults import Ledger
from cloud.storage import STORAGE_HOSTS, Storage, join_batch, split_batch
from cloud.vertex import VERTEX_HOST, Vertex

HOSTS = (*STORAGE_HOSTS, *accounts.ACCOUNT_HOSTS, DATAFLOW_HOST, VERTEX_HOST)
_STEP = 64 << 10  # bytes sent at a time: what a client that hangs up does not take is not counted


class Proxy(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, storage: Storage, dataflow: Dataflow, vertex: Vertex, ledger: Ledger, certificate: Path):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.storage, self.dataflow, self.vertex, self.ledger = storage, dataflow, vertex, ledger
        self.latency = 0.0  # seconds that every request to the bucket takes, for measuring
        self.refused: list[str] = []  # hosts that a client asked for and did not get
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(certificate)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> "Proxy":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is nothing to tell of."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy
    tunnel = ""  # the host that the client believes to talk to

    def log_message(self, *_: object) -> None:
        pass

    def do_CONNECT(self) -> None:
        host = self.path.partition(":")[0]
        if host not in HOSTS:
            self.server.refused.append(host)
            self._send(Response(403))
            self.close_connection = True
            return
        self.connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = self.server.tls.wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb", 1 << 16)
        self.tunnel = host
        self.close_connection = False

    def handle_expect_100(self) -> bool:
        self.connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    def _answer(self) -> None:
        if not self.tunnel:
            self._send(accounts.metadata(self.path))
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.tunnel, self.path, headers, self._body())
        if self.tunnel == DATAFLOW_HOST:
            self._send(self.server.dataflow.answer(request))
            return
        if self.tunnel == VERTEX_HOST:
            self._send(self.server.vertex.answer(request))
            return
        if accounts.concerns(request):
            self._send(accounts.answer(request))
            return
        if request.kind == "batch":
            self._send(join_batch([self._one(inner)[0] for inner in split_batch(request)]))
            return
        response, cut = self._one(request)
        self._send(response, self.server.ledger.counter(request), cut)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _answer

    def _one(self, request: Request) -> tuple[Response, bool]:
        """The response to a request, and whether the connection is to break in the middle of it."""
        fault = self.server.ledger.enter(request)
        time.sleep(self.server.latency)
        if fault in ("503", "429"):
            return Response.json({"error": {"code": int(fault), "message": "try again"}}, int(fault)), False
        if fault == "cut" and request.kind == "write":
            half = Request(request.method, request.host, request.target, request.headers,
                           request.body[: len(request.body) // 2], whole=False)  # fmt: skip
            self.server.storage.answer(half)
            return Response(), True
        return self.server.storage.answer(request), fault == "cut"

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(parts)

    def _send(self, response: Response, sent: Callable[[int], None] = lambda size: None, cut: bool = False) -> None:
        """Sends a response, or half of it and no more; tells `sent` of each part of the body that is on its way."""
        reason = HTTPStatus(response.status).phrase if response.status in set(HTTPStatus) else "Other"
        lines = [f"HTTP/1.1 {response.status} {reason}"]
        headers = {**response.headers, "Content-Length": str(len(response.body))}
        if response.status == 204:
            del headers["Content-Length"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join([*lines, "", ""]).encode()
        body = b"" if self.command == "HEAD" else response.body
        if cut:
            head, body = (head if body else b""), body[: len(body) // 2]
            self.close_connection = True
        self.connection.sendall(head + body[:_STEP])
        sent(min(len(body), _STEP))
        for at in range(_STEP, len(body), _STEP):
            part = body[at : at + _STEP]
            self.connection.sendall(part)
            sent(len(part))
        if cut:
            self.connection.shutdown(socket.SHUT_RDWR)
