"""A request that reached the stand-in, and the response to it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit


class Refused(Exception):
    """An answer other than success."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status, self.message = status, message


@dataclass(frozen=True)
class Request:
    method: str
    host: str
    target: str
    headers: Mapping[str, str]  # names in lower case
    body: bytes = b""
    whole: bool = True  # False: the connection broke in the middle of the body

    @property
    def path(self) -> str:
        """Still quoted: an object's name may hold a slash."""
        return urlsplit(self.target).path

    @property
    def params(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    @property
    def kind(self) -> str:
        """What a request to Cloud Storage is counted as."""
        if self.path.startswith("/upload/"):
            return "write"
        if self.path.startswith("/batch"):
            return "batch"
        if self.method == "DELETE":
            return "delete"
        if re.search(r"/o/[^/]+/(rewriteTo|copyTo|moveTo|compose)\b", self.path):
            return "copy"
        if self.path.endswith("/o"):
            return "list"
        if self.params.get("alt") == "media" or not re.match(r"/storage/v1/", self.path):
            return "read"
        return "metadata"


@dataclass
class Response:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, value: Any, status: int = 200, **headers: str) -> "Response":
        return cls(status, json.dumps(value).encode(), {"Content-Type": "application/json", **headers})

    @classmethod
    def error(cls, refused: Refused) -> "Response":
        reason = {401: "required", 403: "forbidden", 404: "notFound", 412: "conditionNotMet"}.get(refused.status, "")
        errors = [{"message": refused.message, "domain": "global", "reason": reason}]
        return cls.json({"error": {"code": refused.status, "message": refused.message, "errors": errors}},
                        refused.status)  # fmt: skip
