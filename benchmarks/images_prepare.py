"""Images: preprocessing against plain Beam, which maps each file to an Example; memory as there are more.

    python benchmarks/images_prepare.py --size small [--json images_prepare.json]

Files are JPEGs of two sizes, in ten folders. Both read the same files, see whether each is whole (plain Beam decodes
it, we do so where we must), and write its bytes with its label. The time of an image is compared, start-up of both
left out.
"""

import argparse
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from measure import Measured, measure_writing, without_start_up
from PIL import Image
from turns import preprocessing, say, write_json

HERE = Path(__file__).resolve().parent
# Of each sort: its side in pixels, how many images, and how many for the memory, which then grow to 4 times.
SIZES = {
    "tiny": {"thumbnails": (64, 400, 200), "photos": (500, 100, 50)},
    "small": {"thumbnails": (64, 20_000, 10_000), "photos": (500, 10_000, 1_000)},
    "large": {"thumbnails": (64, 100_000, 50_000), "photos": (500, 20_000, 5_000)},
}
START_UP = 40  # images that are next to none
CLASSES = 10
SOURCES = 50  # pictures that are encoded; the others are these with another end


def make_images(folder: Path, side: int, count: int) -> Path:
    """Files of random shapes, each with other bytes."""
    shutil.rmtree(folder, ignore_errors=True)
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:side, 0:side]
    encoded = []
    for _ in range(min(count, SOURCES)):
        waves = [np.sin(x / rng.uniform(2, 20)) + np.cos(y / rng.uniform(2, 20)) for _ in range(3)]
        noise = rng.normal(0, 8, (side, side, 3))
        pixels = (np.stack(waves, -1) * 60 + 128 + noise).clip(0, 255).astype(np.uint8)
        path = folder / "one.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path, quality=85)
        encoded.append(path.read_bytes())
    (folder / "one.jpg").unlink()
    for number in range(CLASSES):
        (folder / f"class{number}").mkdir()
    for number in range(count):
        data = encoded[number % len(encoded)] + number.to_bytes(4, "big")
        (folder / f"class{number % CLASSES}" / f"{number:07d}.jpg").write_bytes(data)
    return folder


def ours(files: Path, output: Path, scratch: Path) -> list[str]:
    """The command that preprocesses images."""
    job = {
        "name": "bench",
        "source": {"kind": "image", "files": str(files)},
        "label": {"column": "folder", "classes": "auto"},
        "split": {"train": 1, "eval": 0, "test": 0},
        "output": {"path": str(output)},
    }
    return preprocessing(job, scratch / "images.yaml")


def plain(files: Path, output: Path, scratch: Path) -> list[str]:
    """The command of plain Beam."""
    return [sys.executable, str(HERE / "image_beam.py"), "--input", str(files), "--output", str(output)]


def compare(size: str, scratch: Path) -> dict:
    """What `main` prints, as JSON."""
    return {sort: compare_sort(sort, *sizes, scratch) for sort, sizes in SIZES[size].items()}


def compare_sort(sort: str, side: int, count: int, base: int, scratch: Path) -> dict:
    """Both on images of one size, and ours on more of them."""
    files = scratch / "images"

    def run(name: str, images: int) -> Measured:
        command = {"ours": ours, "plain": plain}[name](make_images(files, side, images), scratch / name, scratch)
        return measure_writing(command, scratch / name, scratch / "log.txt")

    found: dict = {"side": side, "images": count}
    for name in ("ours", "plain"):
        figures = found[name] = without_start_up(partial(run, name), START_UP, count, "images")
        found["bytes"] = sum(path.stat().st_size for path in files.rglob("*.jpg"))
        say(
            f"{sort}, {name}: {count:,} images, {found['bytes'] / 1e6:,.0f} MB, in {figures['whole']:.1f} s, of which "
            f"start-up {figures['start_up']:.1f} s: {figures['images_per_second']:,.0f} images/s, "
            f"{figures['cpu_ms']:.2f} ms of a core for each; {figures['peak_rss_mb']:,.0f} MB"
        )
    found["ratio"] = found["ours"]["images_per_second"] / found["plain"]["images_per_second"]
    say(f"{sort}: preprocessing {found['ratio']:.1f} times plain Beam")
    found["growth"] = []
    for images in (base, 4 * base):
        done = run("ours", images)
        found["growth"].append({"images": images, "seconds": done.seconds, "peak_rss_mb": done.peak_rss_mb})
        say(f"{sort}: {images:,} images: {done.seconds:.1f} s, {done.peak_rss_mb:,.0f} MB")
    return found


def main() -> None:
    """Prints what it measures, a line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="beamfeed-images-") as scratch:
        results = compare(args.size, Path(scratch))
    write_json(results, args.json)


if __name__ == "__main__":
    main()
