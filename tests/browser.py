"""A page in headless Chromium: how it lies at a width, what it complains of, what it asks the network for.

    python tests/browser.py PAGE.html docs/images/report.png the-latent-space the-oddest-assets

writes a picture of some sections. Chromium is Debian's, or where CHROMIUM says; nothing else is needed.
"""

import base64
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
PHONE, DESKTOP = 390, 1280


@dataclass
class Seen:
    """What was seen of a page.

    Attributes:
      width: that its content needs, in pixels.
      said: what stands in the console, and errors.
      asked: addresses that it asked for, but for its own and those that hold what they name.
      broken: images that are not shown.
      images: in all.
      text: as a reader sees it.
    """

    width: int
    said: list[dict[str, Any]]
    asked: list[str]
    broken: int
    images: int
    text: str


class Browser:
    """A browser that is spoken to through two pipes, by the DevTools protocol."""

    def __init__(self, write: int, read: int):
        self._write, self._read, self._buffer, self._number = write, read, b"", 0
        self.events: list[dict[str, Any]] = []
        self._session: dict[str, str] = {}

    def receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise RuntimeError("Chromium ended")
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters, **self._session}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != self._number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, page: Path, width: int, scale: float = 1) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=scale, mobile=width <= PHONE,
        )  # fmt: skip
        self.call("Page.navigate", url=page.absolute().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())

    def ask(self, expression: str) -> Any:
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def picture(self, **clip: float) -> bytes:
        done = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip={**clip, "scale": 1})
        return base64.b64decode(done["data"])


@contextmanager
def browser() -> Iterator[Browser]:
    """Chromium, which ends when this is left."""
    assert CHROMIUM is not None
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    # It reads from descriptor 3 and writes to 4: a shell puts the pipes there.
    command = f'exec "$0" "$@" 3<&{to_read} 4>&{from_write}'
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        process = subprocess.Popen(
            ["bash", "-c", command, CHROMIUM, *options, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_read, from_write), start_new_session=True, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(from_write)
        try:
            yield Browser(to_write, from_read)
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # with its own processes
            process.wait()
            os.close(to_write)
            os.close(from_read)


def look_at(page: Path, width: int) -> Seen:
    """What a page is like at a width."""
    with browser() as chromium:
        chromium.open(page, width)
        said = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        found = Seen(
            chromium.ask("document.documentElement.scrollWidth"),
            [],
            [],
            chromium.ask("[...document.images].filter(one => !one.complete || !one.naturalWidth).length"),
            chromium.ask("document.images.length"),
            chromium.ask("document.body.innerText"),
        )
        requests = [event["params"]["request"]["url"] for event in chromium.events
                    if event.get("method") == "Network.requestWillBeSent"]  # fmt: skip
        found.said = [event for event in chromium.events if event.get("method") in said]
        found.asked = [url for url in requests if not url.startswith("data:") and url != page.absolute().as_uri()]
    return found


def write_picture(page: Path, picture: Path, sections: list[str]) -> None:
    """A picture of some sections that follow each other."""
    with browser() as chromium:
        chromium.open(page, DESKTOP)
        edges = [
            chromium.ask(f"(box => [box.top + scrollY, box.bottom + scrollY])"
                         f"(document.getElementById('{name}').getBoundingClientRect())")
            for name in sections
        ]  # fmt: skip
        top = min(edge[0] for edge in edges)
        png = chromium.picture(x=0, y=top, width=DESKTOP, height=max(edge[1] for edge in edges) - top + 16)
    Image.open(io.BytesIO(png)).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(picture, optimize=True)


if __name__ == "__main__":
    write_picture(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
