"""What a bucket holds: objects with generations, preconditions and listings as Cloud Storage has them."""

import base64
import hashlib
import itertools
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import google_crc32c
from cloud.exchange import Refused


@dataclass(frozen=True)
class Stored:
    """One generation of an object."""

    bucket: str
    name: str
    data: bytes
    generation: int
    created: datetime
    content_type: str
    custom: Mapping[str, str]

    @cached_property
    def hashes(self) -> dict[str, str]:
        crc = google_crc32c.Checksum(self.data).digest()
        md5 = hashlib.md5(self.data).digest()
        return {"crc32c": base64.b64encode(crc).decode(), "md5Hash": base64.b64encode(md5).decode()}

    def resource(self) -> dict[str, Any]:
        """The object as the JSON API describes it."""
        time = self.created.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "kind": "storage#object",
            "id": f"{self.bucket}/{self.name}/{self.generation}",
            "bucket": self.bucket,
            "name": self.name,
            "size": str(len(self.data)),
            "generation": str(self.generation),
            "metageneration": "1",
            "contentType": self.content_type,
            "storageClass": "STANDARD",
            "timeCreated": time,
            "updated": time,
            "etag": f"e{self.generation}",
            "metadata": dict(self.custom),
            **self.hashes,
        }


@dataclass(frozen=True)
class Page:
    objects: list[Stored]
    prefixes: list[str]
    next: str | None


class Store:
    """Buckets in memory; every method is atomic."""

    def __init__(self, *buckets: str):
        self._buckets: dict[str, dict[str, Stored]] = {name: {} for name in buckets}
        self._generations = itertools.count(1_700_000_000_000_000)
        self._lock = threading.RLock()

    @contextmanager
    def _bucket(self, name: str) -> Iterator[dict[str, Stored]]:
        with self._lock:
            if name not in self._buckets:
                raise Refused(404, "The specified bucket does not exist.")
            yield self._buckets[name]

    def check_bucket(self, bucket: str) -> None:
        with self._bucket(bucket):
            pass

    def get(self, bucket: str, name: str, params: Mapping[str, str] | None = None) -> Stored:
        with self._bucket(bucket) as objects:
            found = objects.get(name)
            if found is None or (params or {}).get("generation", str(found.generation)) != str(found.generation):
                raise Refused(404, f"No such object: {bucket}/{name}")
            check_preconditions(found, params or {})
            return found

    def put(
        self, bucket: str, name: str, data: bytes, params: Mapping[str, str] | None = None,
        content_type: str = "application/octet-stream", custom: Mapping[str, str] | None = None,
    ) -> Stored:  # fmt: skip
        with self._bucket(bucket) as objects:
            check_preconditions(objects.get(name), params or {})
            now = datetime.now(UTC)
            stored = Stored(bucket, name, data, next(self._generations), now, content_type, custom or {})
            objects[name] = stored
            return stored

    def age(self, bucket: str, name: str, by: timedelta) -> None:
        """Makes an object older than it is."""
        with self._bucket(bucket) as objects:
            objects[name] = replace(objects[name], created=objects[name].created - by)

    def delete(self, bucket: str, name: str, params: Mapping[str, str] | None = None) -> None:
        with self._bucket(bucket) as objects:
            self.get(bucket, name, params)
            del objects[name]

    def copy(self, source: Stored, bucket: str, name: str, params: Mapping[str, str], *, move: bool = False) -> Stored:
        with self._lock:
            of_source = {
                key.replace("Source", ""): value for key, value in params.items() if key.startswith("ifSource")
            }
            self.get(source.bucket, source.name, of_source)
            copied = self.put(bucket, name, source.data, params, source.content_type, source.custom)
            if move:
                self.delete(source.bucket, source.name)
            return copied

    def page(self, bucket: str, params: Mapping[str, str]) -> Page:
        """One page of a listing: objects and prefixes together in order of name."""
        prefix, delimiter = params.get("prefix", ""), params.get("delimiter", "")
        after, limit = params.get("pageToken", ""), int(params.get("maxResults") or 1000)
        first, end = params.get("startOffset", ""), params.get("endOffset", "")
        entries: dict[str, Stored | None] = {}
        with self._bucket(bucket) as objects:
            for name in sorted(objects):
                if not name.startswith(prefix) or name < first or (end and name >= end):
                    continue
                cut = name.find(delimiter, len(prefix)) if delimiter else -1
                if cut >= 0:
                    entries.setdefault(name[: cut + len(delimiter)], None)
                marks = cut >= 0 and cut + len(delimiter) == len(name)  # an object that stands for a folder
                if cut < 0 or (marks and params.get("includeTrailingDelimiter") == "true"):
                    entries[name] = objects[name]
        names = [name for name in sorted(entries) if name > after]
        chosen = names[:limit]
        return Page(
            objects=[stored for name in chosen if (stored := entries[name]) is not None],
            prefixes=[name for name in chosen if entries[name] is None],
            next=chosen[-1] if len(names) > limit else None,
        )

    def names(self, bucket: str) -> list[str]:
        with self._bucket(bucket) as objects:
            return sorted(objects)

    def objects(self) -> list[Stored]:
        """What all buckets hold."""
        with self._lock:
            return [objects[name] for _, objects in sorted(self._buckets.items()) for name in sorted(objects)]


def check_preconditions(found: Stored | None, params: Mapping[str, str]) -> None:
    """Raises Refused(412) unless the object that is there, if any, is what the request expects."""
    generation = str(found.generation) if found else "0"
    metageneration = "1" if found else "0"
    for key, actual, wanted in (
        ("ifGenerationMatch", generation, True),
        ("ifGenerationNotMatch", generation, False),
        ("ifMetagenerationMatch", metageneration, True),
        ("ifMetagenerationNotMatch", metageneration, False),
    ):
        if key in params and (params[key] == actual) != wanted:
            raise Refused(412, "At least one of the pre-conditions you specified did not hold.")
