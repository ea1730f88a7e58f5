"""The JSON API of Cloud Storage, and reads by its XML API, over a Store: what pyarrow, Beam and TensorFlow call."""

import email
import json
import re
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from cloud.exchange import Refused, Request, Response
from cloud.store import Store, Stored

STORAGE_HOSTS = ("storage.googleapis.com", "www.googleapis.com")
FORBIDDEN = "forbidden"  # a bucket that answers 403 to everything
UPLOAD_STEP = 256 << 10  # what an interrupted upload keeps is a multiple of it


@dataclass
class Upload:
    """A resumable upload under way."""

    bucket: str
    name: str
    params: dict[str, str]
    about: dict[str, Any]
    data: bytearray = field(default_factory=bytearray)
    done: Stored | None = None


class Storage:
    """Answers for the buckets of a store.

    Attributes:
      shows_buckets: whether the caller may look at a bucket itself; most may only use its objects.
    """

    def __init__(self, store: Store, *, shows_buckets: bool = False):
        self.store, self.shows_buckets = store, shows_buckets
        self._uploads: dict[str, Upload] = {}
        self._lock = threading.Lock()

    def answer(self, request: Request) -> Response:
        try:
            if "authorization" not in request.headers:
                raise Refused(401, "Anonymous caller does not have storage.objects access to the bucket.")
            return self._route(request)
        except Refused as refused:
            return Response.error(refused)

    def _route(self, request: Request) -> Response:
        path = request.path
        bucket = re.match(r"(?:/(?:upload/|download/)?storage/v1/b)?/([^/]+)", path)
        if bucket and bucket[1] == FORBIDDEN:
            raise Refused(403, "tester@example.com does not have storage.objects access to the bucket. "
                               "Permission denied on resource (or it may not exist).")  # fmt: skip
        if found := re.fullmatch(r"/upload/storage/v1/b/([^/]+)/o", path):
            return self._upload(request, found[1])
        if found := re.fullmatch(r"/(?:download/)?storage/v1/b/([^/]+)/o/([^/]+)", path):
            return self._object(request, found[1], unquote(found[2]))
        if found := re.fullmatch(r"/storage/v1/b/([^/]+)/o/([^/]+)/(\w+)(?:/b/([^/]+)/o)?(?:/o/)?/?([^/]*)", path):
            return self._copy(request, found[1], unquote(found[2]), found[3], found[4] or found[1], unquote(found[5]))
        if found := re.fullmatch(r"/storage/v1/b/([^/]+)/o", path):
            return self._list(request, found[1])
        if found := re.fullmatch(r"/storage/v1/b/([^/]+)/storageLayout", path):
            self.store.check_bucket(found[1])
            return Response.json({"bucket": found[1], "hierarchicalNamespace": {"enabled": False}})
        if found := re.fullmatch(r"/storage/v1/b/([^/]+)", path):
            self.store.check_bucket(found[1])
            if self.shows_buckets:
                return Response.json({"kind": "storage#bucket", "id": found[1], "name": found[1], "location": "EU"})
            raise Refused(403, "tester@example.com does not have storage.buckets.get access to the bucket.")
        if found := re.fullmatch(r"/([^/]+)/(.+)", path):  # the XML API
            return self._media(request, self.store.get(found[1], unquote(found[2])))
        raise Refused(400, f"this stand-in does not know {request.method} {path}")

    def _list(self, request: Request, bucket: str) -> Response:
        page = self.store.page(bucket, request.params)
        found: dict[str, Any] = {"kind": "storage#objects", "items": [o.resource() for o in page.objects]}
        if page.prefixes:
            found["prefixes"] = page.prefixes
        if page.next is not None:
            found["nextPageToken"] = page.next
        return Response.json(found)

    def _object(self, request: Request, bucket: str, name: str) -> Response:
        if request.method == "DELETE":
            self.store.delete(bucket, name, request.params)
            return Response(204)
        stored = self.store.get(bucket, name, request.params)
        if request.method == "GET" and request.params.get("alt") == "media":
            return self._media(request, stored)
        return Response.json(stored.resource())

    def _media(self, request: Request, stored: Stored) -> Response:
        size, wanted = len(stored.data), re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("range", ""))
        headers = {
            "Content-Type": stored.content_type,
            "X-Goog-Generation": str(stored.generation),
            "X-Goog-Hash": f"crc32c={stored.hashes['crc32c']},md5={stored.hashes['md5Hash']}",
            "X-Goog-Stored-Content-Length": str(size),
            "X-Goog-Stored-Content-Encoding": "identity",
            "ETag": f'"e{stored.generation}"',
        }
        if wanted is None:
            return Response(200, stored.data, headers)
        first = int(wanted[1]) if wanted[1] else max(0, size - int(wanted[2]))
        last = min(int(wanted[2]), size - 1) if wanted[1] and wanted[2] else size - 1
        if first >= size:
            return Response(416, b"", {**headers, "Content-Range": f"bytes */{size}"})
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        return Response(206, stored.data[first : last + 1], headers)

    def _copy(self, request: Request, bucket: str, name: str, verb: str, to_bucket: str, to: str) -> Response:
        if verb == "compose":
            wanted = json.loads(request.body)
            parts = [self.store.get(bucket, part["name"]).data for part in wanted["sourceObjects"]]
            return Response.json(self.store.put(bucket, name, b"".join(parts), request.params).resource())
        source = self.store.get(bucket, name)
        copied = self.store.copy(source, to_bucket, to, request.params, move=verb == "moveTo").resource()
        if verb != "rewriteTo":
            return Response.json(copied)
        size = copied["size"]
        return Response.json({"kind": "storage#rewriteResponse", "totalBytesRewritten": size, "objectSize": size,
                              "done": True, "resource": copied})  # fmt: skip

    def _upload(self, request: Request, bucket: str) -> Response:
        params = request.params
        if "upload_id" in params:
            return self._resume(request, params["upload_id"])
        if not request.whole:
            raise Refused(400, "the body is cut off")
        self.store.check_bucket(bucket)
        content_type = request.headers.get("content-type", "")
        if params["uploadType"] == "media":
            return Response.json(self.store.put(bucket, params["name"], request.body, params, content_type).resource())
        if params["uploadType"] == "multipart":
            about, data = _two_parts(content_type, request.body)
            name = params.get("name") or about["name"]
            return Response.json(self.store.put(bucket, name, data, params, **_kept(about)).resource())
        about = json.loads(request.body or b"{}")
        identity = uuid.uuid4().hex
        self._uploads[identity] = Upload(bucket, params.get("name") or about["name"], params, about)
        where = f"https://{request.host}/upload/storage/v1/b/{quote(bucket)}/o?uploadType=resumable"
        return Response.json({}, Location=f"{where}&upload_id={identity}", **{"X-GUploader-UploadID": identity})

    def _resume(self, request: Request, identity: str) -> Response:
        upload = self._uploads.get(identity)
        if upload is None:
            raise Refused(404, "no such upload")
        if request.method == "DELETE":
            del self._uploads[identity]
            return Response(499)
        with self._lock:
            if upload.done is None:
                self._append(request, upload)
        if upload.done is not None:
            return Response.json(upload.done.resource())
        kept = {"Range": f"bytes=0-{len(upload.data) - 1}"} if upload.data else {}
        return Response(308, b"", kept)

    def _append(self, request: Request, upload: Upload) -> None:
        given = request.headers.get("content-range")
        first, total = 0, str(len(request.body))
        if given:
            place, _, total = given.removeprefix("bytes ").partition("/")
            first = int(place.partition("-")[0]) if place != "*" else len(upload.data)
        if first > len(upload.data):
            raise Refused(503, "bytes are missing before these")
        body = request.body if request.whole else request.body[: len(request.body) // UPLOAD_STEP * UPLOAD_STEP]
        upload.data += body[len(upload.data) - first :]
        if request.whole and total == str(len(upload.data)):
            upload.done = self.store.put(
                upload.bucket, upload.name, bytes(upload.data), upload.params, **_kept(upload.about)
            )
            upload.data.clear()


def _kept(about: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "content_type": about.get("contentType", "application/octet-stream"),
        "custom": about.get("metadata") or {},
    }


def _two_parts(content_type: str, body: bytes) -> tuple[dict[str, Any], bytes]:
    """The description and the data of a multipart upload. Binary data: no parser of mail would leave it as it is."""
    boundary = re.search(r'boundary="?([^";]+)', content_type)
    assert boundary, content_type
    line = rb"(?:^|\r?\n)--" + re.escape(boundary[1].encode()) + rb"(?:--)?\r?\n?"
    _, about, data, _ = re.split(line, body, maxsplit=3)
    described, contents = (re.split(rb"\r?\n\r?\n", part.lstrip(b"\r\n"), maxsplit=1)[1] for part in (about, data))
    return json.loads(described), contents


def split_batch(request: Request) -> list[Request]:
    """The requests inside a batch."""
    head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
    parts = email.message_from_bytes(head + request.body).get_payload()
    found = []
    for part in parts:
        assert isinstance(part, email.message.Message)
        inner = part.get_payload()
        text = inner if isinstance(inner, str) else inner[0].as_string()
        first, _, rest = text.lstrip().replace("\r\n", "\n").partition("\n")
        method, target, _ = first.split(" ")
        body = rest.partition("\n\n")[2].encode()
        found.append(Request(method, request.host, target, request.headers, body))
    return found


def join_batch(responses: list[Response]) -> Response:
    boundary = "batch_" + uuid.uuid4().hex
    parts = []
    for index, response in enumerate(responses):
        parts.append(
            f"--{boundary}\r\nContent-Type: application/http\r\nContent-ID: <response-x+{index}>\r\n\r\n"
            f"HTTP/1.1 {response.status} OK\r\nContent-Type: application/json; charset=UTF-8\r\n"
            f"Content-Length: {len(response.body)}\r\n\r\n".encode()
            + response.body
            + b"\r\n"
        )
    body = b"".join(parts) + f"--{boundary}--\r\n".encode()
    return Response(200, body, {"Content-Type": f"multipart/mixed; boundary={boundary}"})
