"""Packages of the user's own code that a job carries: a folder, a module or a wheel; and a wheel of each."""

import base64
import hashlib
import os
import re
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from beamfeed.contract import storage
from beamfeed.contract.errors import UserError

KEY = "launch.preprocess.packages"
_EVERYWHERE = "-none-any.whl"


@dataclass(frozen=True)
class Package:
    """Code on this machine.

    Attributes:
      path: a folder with an `__init__.py`, a `.py` file, or a wheel.
    """

    path: str

    @property
    def folder(self) -> str:
        """Where Python looks for it: the folder that holds it, or the wheel itself."""
        return self.path if self.path.endswith(".whl") else os.path.dirname(self.path)

    def files(self) -> Iterator[tuple[str, str]]:
        """Its files: where each is, and its name in a wheel."""
        if os.path.isfile(self.path):
            yield self.path, os.path.basename(self.path)
            return
        for folder, inner, names in os.walk(self.path):
            inner[:] = sorted(name for name in inner if name != "__pycache__" and not name.startswith("."))
            for name in sorted(names):
                path = os.path.join(folder, name)
                if not name.startswith("."):
                    yield path, os.path.relpath(path, self.folder).replace(os.sep, "/")


@contextmanager
def fetched(paths: Sequence[str]) -> Iterator[list[Package]]:
    """The packages that a job names; wheels of a bucket are on this machine while the context lasts.

    Raises:
      UserError: if one of them is none.
    """
    if not any(map(storage.is_remote, paths)):  # no folder, which a job that is killed would leave
        yield [_fetch(path, "") for path in paths]
        return
    with tempfile.TemporaryDirectory(prefix="beamfeed-packages-") as folder:
        yield [_fetch(path, folder) for path in paths]


def _fetch(path: str, folder: str) -> Package:
    name = os.path.basename(path.rstrip("/"))
    if name.endswith(".whl") and not name.endswith(_EVERYWHERE):
        raise UserError(f"{KEY}: {path} holds compiled code; put it into the image of the workers (docs/dataflow.md)")
    if storage.is_remote(path):
        if not name.endswith(".whl"):
            raise UserError(f"{KEY}: {path} is in a bucket, where only wheels (.whl) are taken from")
        try:
            code = storage.read_bytes(path)
        except FileNotFoundError:
            raise UserError(f"{KEY}: {path} does not exist") from None
        local = os.path.join(folder, name)
        with open(local, "wb") as file:
            file.write(code)
        return Package(local)
    local = os.path.abspath(path)
    if not os.path.exists(local):
        raise UserError(f"{KEY}: {path} does not exist")
    if os.path.isdir(local):
        if not os.path.exists(os.path.join(local, "__init__.py")):
            has_build = any(os.path.exists(os.path.join(local, name)) for name in ("pyproject.toml", "setup.py"))
            hint = "; build a wheel of it (pip wheel --no-deps) and name that" if has_build else ""
            raise UserError(f"{KEY}: {path} has no __init__.py, so it is no package{hint}")
    elif not name.endswith((".py", ".whl")):
        raise UserError(f"{KEY}: {path} must be a folder with an __init__.py, a .py file or a .whl")
    if not name.endswith(".whl") and not name.removesuffix(".py").isidentifier():
        raise UserError(f"{KEY}: {path}: {name.removesuffix('.py')!r} cannot be imported by Python, rename it")
    return Package(local)


def to_wheel(package: Package, folder: str) -> str:
    """Writes a package as a wheel into a folder, unless it is one; returns its path.

    The same files give the same bytes. The format is that of PEP 427.
    """
    if package.path.endswith(".whl"):
        return package.path
    name = os.path.basename(package.path).removesuffix(".py")
    contents = {}
    for path, inside in package.files():
        with open(path, "rb") as file:
            contents[inside] = file.read()
    digest = hashlib.sha256()
    for inside, data in sorted(contents.items()):
        digest.update(f"{inside}\n{len(data)}\n".encode() + data)
    project = re.sub(r"_+", "_", name).strip("_") or "own"
    version = f"0+{digest.hexdigest()[:12]}"
    info = f"{project}-{version}.dist-info"
    contents[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n".encode()
    contents[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: beamfeed\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = [f"{inside},sha256={_encoded(data)},{len(data)}\n" for inside, data in sorted(contents.items())]
    contents[f"{info}/RECORD"] = "".join([*record, f"{info}/RECORD,,\n"]).encode()
    target = os.path.join(folder, f"{project}-{version}-py3{_EVERYWHERE}")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as wheel:
        for inside, data in sorted(contents.items()):
            wheel.writestr(zipfile.ZipInfo(inside), data, zipfile.ZIP_DEFLATED)
    return target


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
