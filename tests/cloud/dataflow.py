"""A loopback server that plays Cloud Storage and Dataflow, as far as submitting and following a job needs them.

It keeps the objects and the job requests, and hands out the states, messages and
counters of a script. TensorFlow's client knows no other address than Google's: for
it the server is also a proxy, with a certificate of its own, that passes nothing on.
"""

import base64
import datetime
import json
import os
import re
import ssl
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import google_crc32c
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

# Of the endpoints that are not on this machine, Beam speaks REST only to one with 'sandbox' in its name.
DATAFLOW = "https://dataflow.sandbox.googleapis.com"
PROXIED = (
    "www.googleapis.com",
    "storage.googleapis.com",
    "oauth2.googleapis.com",
    "iamcredentials.googleapis.com",
    "dataflow.sandbox.googleapis.com",
)
JOB_ID = "2026-01-02_03_04_05-123"
STARTED = "2026-01-02T03:04:05.678Z"


@dataclass
class Cloud:
    """What the server holds; tests read and change it while it runs."""

    url: str = ""
    certificate: Path = Path()
    objects: dict[str, bytes] = field(default_factory=dict)  # bucket/name -> contents
    requests: list[tuple[str, str, dict]] = field(default_factory=list)  # method, path, headers
    submitted: list[dict] = field(default_factory=list)  # job requests
    active: list[dict] = field(default_factory=list)  # what a list of jobs answers
    states: list[Any] = field(default_factory=list)  # of the job, one a look; the last stays. An int is an HTTP error
    messages: list[tuple[str, str]] = field(default_factory=list)  # importance, text
    metrics: list[dict] = field(default_factory=list)
    refuse: tuple[int, str, str] | None = None  # what submitting answers: code, status, message

    def environment(self, folder: Path) -> dict[str, str]:
        """What sends the client libraries here, with a service account of our own."""
        account = {
            "type": "service_account",
            "project_id": "a-project",
            "private_key_id": "1",
            "private_key": _pem(_new_key()).decode(),
            "client_email": "robot@a-project.iam.gserviceaccount.com",
            "client_id": "1",
            "token_uri": f"{self.url}/token",
        }
        (folder / "key.json").write_text(json.dumps(account))
        return {
            "GOOGLE_APPLICATION_CREDENTIALS": str(folder / "key.json"),
            "STORAGE_EMULATOR_HOST": self.url,  # google-cloud-storage, and so Beam
            "CLOUD_STORAGE_EMULATOR_ENDPOINT": self.url,  # pyarrow
            "https_proxy": self.url,  # TensorFlow
            "no_proxy": "localhost,127.0.0.1",
            "CURL_CA_BUNDLE": str(self.certificate),
            "REQUESTS_CA_BUNDLE": str(self.certificate),
            "BOTO_CONFIG": os.devnull,
        }

    def object_ending(self, suffix: str) -> bytes:
        (found,) = [data for name, data in self.objects.items() if name.endswith(suffix)]
        return found


@contextmanager
def serve(folder: Path) -> Iterator[Cloud]:
    """Runs the server; `folder` takes its certificate."""
    cloud = Cloud(certificate=folder / "certificate.pem")
    cloud.certificate.write_bytes(_new_certificate())
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cloud.certificate)
    handler = type("Handler", (_Handler,), {"cloud": cloud, "uploads": {}, "tls": tls})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    cloud.url = f"http://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield cloud
    finally:
        server.shutdown()
        server.server_close()


def _new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _new_certificate() -> bytes:
    """Signed by itself, with its key, for the hosts that the proxy plays."""
    key, name = _new_key(), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName(host) for host in PROXIED])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM) + _pem(key)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cloud: Cloud
    uploads: dict[str, tuple[str, bytearray]]
    tls: ssl.SSLContext

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._route("GET")

    def do_POST(self) -> None:
        self._route("POST")

    def do_PUT(self) -> None:
        self._route("PUT")

    def do_DELETE(self) -> None:
        self._route("DELETE")

    def do_CONNECT(self) -> None:
        if self.path.removesuffix(":443") not in PROXIED:
            return self._error(403, "PERMISSION_DENIED", self.path)
        self.send_response(200)
        self.end_headers()
        self.close_connection = False  # Python asks for the tunnel in HTTP/1.0
        self.connection = self.tls.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)

    def _route(self, method: str) -> None:
        path, _, query = self.path.partition("?")
        self.query = dict(urllib.parse.parse_qsl(query))
        self.body = self._read_body()
        self.cloud.requests.append((method, self.path, dict(self.headers)))
        for wanted, pattern, answer in _ROUTES:
            found = re.fullmatch(pattern, path)
            if wanted == method and found:
                return answer(self, *(urllib.parse.unquote(group) for group in found.groups()))
        self._error(400, "UNIMPLEMENTED", f"{method} {self.path}")

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _send(self, body: bytes, code: int = 200, kind: str = "application/json", **headers: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def _json(self, value: Any, code: int = 200, **headers: str) -> None:
        self._send(json.dumps(value).encode(), code, **headers)

    def _error(self, code: int, status: str, message: str) -> None:
        self._json({"error": {"code": code, "status": status, "message": message}}, code)

    def token(self) -> None:
        self._json({"access_token": "a-token", "expires_in": 3600, "token_type": "Bearer"})

    def no_boundary(self) -> None:
        self._json({"locations": [], "encodedLocations": "0x0"})

    # Cloud Storage

    def bucket(self, name: str) -> None:
        self._json({"kind": "storage#bucket", "name": name, "id": name, "location": "EU"})

    def layout(self, _: str) -> None:
        self._json({"hierarchicalNamespace": {"enabled": False}})

    def listing(self, bucket: str) -> None:
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter")
        names = sorted(name.partition("/")[2] for name in self.cloud.objects if name.startswith(f"{bucket}/{prefix}"))
        below = {name for name in names if delimiter and delimiter in name[len(prefix) :]}
        folders = {prefix + name[len(prefix) :].partition(delimiter)[0] + delimiter for name in below}
        found = [self._describe(f"{bucket}/{name}") for name in names if name not in below]
        self._json({"kind": "storage#objects", "items": found, "prefixes": sorted(folders)})

    def _describe(self, name: str) -> dict:
        bucket, _, rest = name.partition("/")
        data = self.cloud.objects[name]
        checksum = base64.b64encode(google_crc32c.value(data).to_bytes(4, "big")).decode()
        return {
            "kind": "storage#object", "name": rest, "bucket": bucket, "size": str(len(data)), "generation": "1",
            "metageneration": "1", "id": name, "timeCreated": STARTED, "updated": STARTED, "crc32c": checksum,
        }  # fmt: skip

    def read(self, bucket: str, name: str) -> None:
        name = f"{bucket}/{name}"
        data = self.cloud.objects.get(name)
        if data is None:
            return self._error(404, "NOT_FOUND", name)
        if self.query.get("alt") != "media" and self.path.startswith("/storage/"):
            return self._json(self._describe(name))
        span = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not span:
            return self._send(data, kind="application/octet-stream")
        first, last = int(span[1]), min(int(span[2] or len(data) - 1), len(data) - 1)
        part = data[first : last + 1]
        at = f"bytes {first}-{last}/{len(data)}"
        self._send(part, 206, "application/octet-stream", Content_Range=at)

    def upload(self, bucket: str) -> None:
        kind = self.query["uploadType"]
        if kind == "resumable":
            name = self.query.get("name") or json.loads(self.body)["name"]
            key = str(len(self.uploads))
            self.uploads[key] = (f"{bucket}/{name}", bytearray())
            where = f"{self.cloud.url}/resumable/{key}"
            return self._send(b"", Location=where)
        name, data = self.query.get("name"), self.body
        if kind == "multipart":
            mark = b"--" + re.search(r"boundary=['\"]?([^'\";]+)", self.headers["Content-Type"])[1].encode()
            about, data = (part.split(b"\r\n\r\n", 1)[1][:-2] for part in self.body.split(mark)[1:3])
            name = name or json.loads(about)["name"]
        self.cloud.objects[f"{bucket}/{name}"] = data
        self._json(self._describe(f"{bucket}/{name}"))

    def resume(self, key: str) -> None:
        name, held = self.uploads[key]
        held += self.body
        total = self.headers.get("Content-Range", "/").rpartition("/")[2]
        if total == "*":
            return self._send(b"", 308, Range=f"bytes=0-{len(held) - 1}")
        self.cloud.objects[name] = bytes(held)
        self._json(self._describe(name))

    def delete(self, bucket: str, name: str) -> None:
        known = self.cloud.objects.pop(f"{bucket}/{name}", None) is not None
        self._send(b"", 204) if known else self._error(404, "NOT_FOUND", name)

    def rewrite(self, bucket: str, name: str, to_bucket: str, to_name: str) -> None:
        made = f"{to_bucket}/{to_name}"
        self.cloud.objects[made] = self.cloud.objects[f"{bucket}/{name}"]
        self._json({"kind": "storage#rewriteResponse", "done": True, "resource": self._describe(made)})

    # Dataflow

    def submit(self) -> None:
        if self.cloud.refuse:
            return self._error(*self.cloud.refuse)
        request = json.loads(self.body)
        self.cloud.submitted.append(request)
        self._json({**_keep(request, "name", "clientRequestId"), "id": JOB_ID, "currentState": "JOB_STATE_PENDING"})

    def jobs(self) -> None:
        wanted = self.query.get("name")
        self._json({"jobs": [job for job in self.cloud.active if wanted in (None, job["name"])]})

    def job(self, key: str) -> None:
        if self.query.get("view") == "JOB_VIEW_DESCRIPTION":
            (found,) = [job for job in self.cloud.active if job["id"] == key]
            return self._json(found)
        states = self.cloud.states
        state = states.pop(0) if len(states) > 1 else states[0]
        if isinstance(state, int):
            return self._error(state, "UNAVAILABLE", "come back later")
        self._json({"id": key, "name": "any", "currentState": state, "createTime": STARTED})

    def job_messages(self, _: str) -> None:
        told = [
            {"id": str(i), "time": STARTED, "messageImportance": importance, "messageText": text}
            for i, (importance, text) in enumerate(self.cloud.messages)
        ]
        self._json({"jobMessages": told})

    def job_metrics(self, _: str) -> None:
        self._json({"metrics": self.cloud.metrics})


def _keep(value: dict, *names: str) -> dict:
    return {name: value[name] for name in names if name in value}


_JOBS = "/v1b3/projects/[^/]+/locations/[^/]+/jobs"
_ROUTES = [
    ("POST", "/token|/oauth2/v[34]/token", _Handler.token),
    ("GET", "/v1/projects/-/serviceAccounts/[^/]+/allowedLocations", _Handler.no_boundary),
    ("GET", "/storage/v1/b/([^/]+)", _Handler.bucket),
    ("GET", "/storage/v1/b/([^/]+)/storageLayout", _Handler.layout),
    ("GET", "/storage/v1/b/([^/]+)/o", _Handler.listing),
    ("GET", "/(?:download/)?storage/v1/b/([^/]+)/o/(.+)", _Handler.read),
    ("GET", "/(?!storage|v1|download)([^/]+)/(.+)", _Handler.read),  # TensorFlow's way to read
    ("DELETE", "/storage/v1/b/([^/]+)/o/(.+)", _Handler.delete),
    ("POST", "/storage/v1/b/([^/]+)/o/([^/]+)/rewriteTo/b/([^/]+)/o/([^/]+)", _Handler.rewrite),
    ("POST", "/upload/storage/v1/b/([^/]+)/o", _Handler.upload),
    ("PUT", "/resumable/(.+)", _Handler.resume),
    ("POST", _JOBS, _Handler.submit),
    ("GET", _JOBS, _Handler.jobs),
    ("GET", _JOBS + "/([^/]+)", _Handler.job),
    ("GET", _JOBS + "/([^/]+)/messages", _Handler.job_messages),
    ("GET", _JOBS + "/([^/]+)/metrics", _Handler.job_metrics),
]
