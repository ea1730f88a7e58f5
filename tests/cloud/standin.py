"""The stand-in for Google Cloud that tests run against: Cloud Storage, Dataflow, Vertex AI, and the accounts."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cloud.accounts import write_key
from cloud.certificates import make_certificates
from cloud.dataflow import Dataflow
from cloud.faults import Counts, How, Ledger
from cloud.proxy import HOSTS, Proxy
from cloud.storage import FORBIDDEN, Storage
from cloud.store import Store
from cloud.vertex import Vertex

BUCKET = "beamfeed-test"
_NOT_INHERITED = ("http_proxy", "all_proxy", "storage_emulator_host", "google_", "gce_", "gcs_", "cloudsdk_", "no_gce")


@dataclass(frozen=True)
class Cloud:
    """A bucket, Dataflow, and how to reach them.

    Attributes:
      env: the whole environment of a subprocess to which gs:// and Dataflow are this stand-in.
      bucket: the name of an empty bucket; `forbidden` that of one that answers 403.
    """

    env: dict[str, str]
    store: Store
    dataflow: Dataflow
    vertex: Vertex
    ledger: Ledger
    proxy: Proxy
    root: Path
    bucket: str = BUCKET
    forbidden: str = FORBIDDEN

    def url(self, *names: str) -> str:
        return "/".join((f"gs://{self.bucket}", *names))

    def upload(self, folder: Path, to: str) -> str:
        """Puts a file, or every file under a folder, into the bucket; returns the gs:// path."""
        if folder.is_file():
            self.store.put(self.bucket, to, folder.read_bytes())
        for path in folder.rglob("*"):
            if path.is_file():
                self.store.put(self.bucket, f"{to}/{path.relative_to(folder).as_posix()}", path.read_bytes())
        return self.url(to)

    def download(self, prefix: str, folder: Path) -> None:
        """Writes every object under a prefix into a folder."""
        for name in self.list(prefix):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.read(f"{prefix}/{name}"))

    def list(self, prefix: str) -> list[str]:
        """The names under a prefix, relative to it; markers of folders are left out."""
        start = f"{prefix.rstrip('/')}/"
        names = self.store.names(self.bucket)
        return [n.removeprefix(start) for n in names if n.startswith(start) and not n.endswith("/")]

    def read(self, name: str) -> bytes:
        return self.store.get(self.bucket, name).data

    def read_ending(self, suffix: str) -> bytes:
        """The one object, of any bucket, whose name ends so."""
        (found,) = [stored for stored in self.store.objects() if stored.name.endswith(suffix)]
        return found.data

    def reset(self) -> None:
        """Empties the bucket, sets the counts to zero and forgets faults; Dataflow is left as it is."""
        for name in self.store.names(self.bucket):
            self.store.delete(self.bucket, name)
        self.ledger.reset()
        self.proxy.refused.clear()

    def counts(self) -> Counts:
        return self.ledger.counts()

    def source_requests(self, folder: str) -> Counter[str]:
        """The requests for the files of a folder: list, stat, range (part of a file) and whole."""
        found: Counter[str] = Counter()
        for line in self.ledger.seen:
            if f"prefix={folder}%2F" in line:
                found["list"] += 1
            elif f"/o/{folder}%2F" in line:
                found["range" if " bytes=" in line else "whole" if "alt=media" in line else "stat"] += 1
        return found

    def inject(self, kind: str, how: How, times: int = 1, match: str = "") -> None:
        """Spoils the next `times` requests of a kind whose target matches the regular expression."""
        self.ledger.inject(kind, how, times, match)

    def python(self, *arguments: str, timeout: float = 120, **env: str) -> subprocess.CompletedProcess[str]:
        """Runs Python on arguments such as ("-m", "beamfeed.pipelines.preprocess"), with gs:// being this stand-in."""
        return subprocess.run(
            [sys.executable, *arguments],
            capture_output=True, text=True, cwd=self.root, env={**self.env, **env}, timeout=timeout,
        )  # fmt: skip

    def preprocess(self, *arguments: str, **options: str) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "beamfeed.pipelines.preprocess", *arguments, **options)


@contextmanager
def start_cloud(
    folder: Path, root: Path, *, buckets: Sequence[str] = (BUCKET,), submits: bool = False
) -> Iterator[Cloud]:
    """Runs the stand-in; `folder` takes its certificates, `root` is where the subprocesses run.

    The subprocesses use the account that the metadata server tells of. With `submits`
    they have a key file instead, and may look at buckets: Beam does so before it
    uploads the files of a Dataflow job.
    """
    authority, certificate = make_certificates(folder, HOSTS)
    key = write_key(folder) if submits else None
    store, dataflow, vertex, ledger = Store(*buckets), Dataflow(), Vertex(), Ledger()
    with Proxy(Storage(store, shows_buckets=submits), dataflow, vertex, ledger, certificate) as proxy:
        env = environment(proxy.address, authority, folder, key)
        yield Cloud(env, store, dataflow, vertex, ledger, proxy, root, buckets[0])


def environment(address: str, authority: Path, home: Path, key: Path | None) -> dict[str, str]:
    """What a process needs to take the proxy at `address` for Google's servers; `key` is a key file, if it has one."""
    inherited = {name: value for name, value in os.environ.items() if not name.lower().startswith(_NOT_INHERITED)}
    metadata = dict.fromkeys(("GCE_METADATA_HOST", "GCE_METADATA_IP", "GCE_METADATA_ROOT"), address)
    trusted = dict.fromkeys(("CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"), str(authority))
    return {
        **inherited,
        **metadata,
        **trusted,
        **({"GOOGLE_APPLICATION_CREDENTIALS": str(key)} if key else {}),
        "CLOUDSDK_CONFIG": str(home / "gcloud"),  # absent: a developer's own credentials stay out
        "https_proxy": f"http://{address}",
        "HTTPS_PROXY": f"http://{address}",
        "no_proxy": "localhost,127.0.0.1",
        "NO_PROXY": "localhost,127.0.0.1",
    }
