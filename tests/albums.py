"""Pictures of every sort, whole preprocessing runs on them, and their records read without the project's code."""

import io
import json
import struct
import zlib
from pathlib import Path

import numpy as np
import tensorflow as tf
import yaml
from PIL import Image

from tests.framing import read_framed

TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # fmt: skip


def pixels(height: int, width: int, channels: int, seed: int = 0) -> np.ndarray:
    """uint8 [height, width, channels] of smooth shapes, so that JPEG keeps them."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin(x / rng.uniform(3, 9) + rng.uniform(0, 6)) + np.cos(y / rng.uniform(3, 9)) for _ in range(channels)]
    return (np.stack(waves, -1) * 60 + 128).clip(0, 255).astype(np.uint8)


def picture(height: int = 37, width: int = 53, mode: str = "RGB", seed: int = 0) -> Image.Image:
    channels = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "CMYK": 4}[mode]
    found = pixels(height, width, channels, seed)
    return Image.fromarray(found[..., 0] if channels == 1 else found, mode)


def encoded(image: Image.Image, format_: str, **options: object) -> bytes:
    target = io.BytesIO()
    image.save(target, format_, **options)
    return target.getvalue()


def turned(image: Image.Image, turn: int, format_: str = "JPEG", **options: object) -> bytes:
    """The image with an EXIF tag of how it is to be turned."""
    exif = Image.Exif()
    exif[0x0112] = turn
    return encoded(image, format_, exif=exif, **options)


def png(height: int, width: int, depth: int, colour: int, rows: bytes, *chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG of raw rows, each with its filter's byte, and of any other chunks before them."""
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    parts = [(b"IHDR", head), *chunks, (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    framed = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


class Album:
    """A folder of images and the job on it."""

    def __init__(self, folder: Path):
        self.folder, self.files, self.output = folder, folder / "photos", folder / "data"
        self.files.mkdir(parents=True)
        self.job = {
            "name": "test",
            "source": {"kind": "image", "files": str(self.files)},
            "label": {"column": "folder", "classes": "auto"},
            "split": {"train": 0.6, "eval": 0.2, "test": 0.2},
            "output": {"path": str(self.output)},
            "launch": {"preprocess": {"workers": 1}, "train": {"workers": 1}},
        }

    def write(self, name: str, data: bytes | Image.Image) -> Path:
        path = self.files / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else encoded(data, "JPEG"))
        return path

    def fill(self, count: int = 20, classes: tuple[str, ...] = ("cats", "dogs")) -> None:
        """Small images of each class."""
        for number, name in enumerate(classes):
            for place in range(count):
                self.write(f"{name}/{place:03d}.jpg", picture(8 + place % 5, 9, seed=1000 * number + place))

    def preprocess(self, *overrides: str) -> int:
        """Runs the whole preprocessing in this process; returns the exit code."""
        from beamfeed.pipelines.preprocess import main

        argv = ["--job", str(self.write_job())]
        for override in overrides:
            argv += ["--set", override]
        return main(argv)

    def write_job(self) -> Path:
        path = self.folder / "job.yaml"
        path.write_text(yaml.safe_dump(self.job, sort_keys=False))
        return path

    @property
    def manifest(self) -> dict:
        return json.loads((self.output / "manifest.json").read_text())

    @property
    def data(self) -> Path:
        return self.output / self.manifest["data"]

    def rejects(self) -> dict[str, str]:
        """By path below the folder of images, the place and the reason."""
        path = self.data / "rejects" / "part-00000.jsonl"
        found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return {one["file"].removeprefix(f"{self.files}/"): f"{one['place']}: {one['reason']}" for one in found}

    def shards(self) -> dict[str, bytes]:
        return {str(path.relative_to(self.data)): path.read_bytes() for path in sorted(self.data.rglob("*.tfrecord"))}

    def rows(self, split: str) -> dict[str, dict]:
        """The fields of each image of a split, by its path; protobuf reads the records."""
        fields = {field["name"]: field for field in self.manifest["fields"]}
        kinds = {"float32": "float_list", "int64": "int64_list"}
        found = {}
        for path in sorted((self.data / split).rglob("*.tfrecord")):
            for record in read_framed(path):
                features = tf.train.Example.FromString(record).features.feature
                lists = {
                    name: list(getattr(features[name], kinds.get(field["dtype"], "bytes_list")).value)
                    for name, field in fields.items()
                }
                for values in zip(*lists.values(), strict=True):
                    row = dict(zip(lists, values, strict=True))
                    name = row["path"].decode()
                    assert name not in found
                    found[name] = row
        return found

    def all_rows(self) -> dict[str, dict]:
        return {name: row for split in ("train", "eval", "test") for name, row in self.rows(split).items()}
