"""Sends files that somebody broke on purpose through every reader.

    python -m tests.torture.hostile --files 10000 [--formats csv png ...] [--docs docs/security.md]

For each format, so many files are made by changing good ones: bits, lengths and counts in headers, runs of bytes that
are cut out, doubled, swapped or taken from another format. Each must be read, set aside with a reason, or end the job
in one line; the good files beside it must come through; memory and time stay in bounds, and no file changes but those
that the job names. Where `strace` is installed, a share runs under it, and what is opened is compared with what may be.
"""

import argparse
import atexit
import bz2
import gzip
import io
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import yaml

from benchmarks.marks import section, with_section

BATCH = 20  # broken files of a job, with as many good ones
SECONDS_A_FILE = 5.0  # of processor time
GROWN_MB = 1500  # the memory that a format may take beyond what the process had
INTERESTING = [0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**40, 2**63 - 1, 2**64 - 1]
PIECES = [
    b'"',
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\r",
    b",,,,",
    b"1e999",
    b"NaN",
    b"{",
    b"[[[[",
    b"\\u0000",
    b"'",
    b"\n\n",
]
HEAD = (
    "| format | broken files | set aside | jobs that ended in a line | read | wrong |",
    "| --- | ---: | ---: | ---: | ---: | ---: |",
)
ROOT = Path(__file__).resolve().parents[2]


def broken(good: bytes, other: bytes, chance: Random) -> bytes:
    """A file made of a good one, by one to four changes; `other` is a good one of another format."""
    changed = bytearray(good)
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        if not changed:
            break
        at = chance.choice(
            [
                chance.randrange(len(changed)),
                chance.randrange(min(len(changed), 64)),
                -chance.randint(1, min(len(changed), 64)),
            ]
        )
        at %= len(changed)
        run = chance.choice([1, 2, 4, 8, 64, 1000])
        match chance.randrange(10):
            case 0:
                changed[at] ^= 1 << chance.randrange(8)
            case 1:
                changed[at : at + run] = chance.randbytes(run)
            case 2:
                del changed[at:]
            case 3:
                del changed[at : at + run]
            case 4:
                size = chance.choice([1, 2, 4, 8])
                number = chance.choice(INTERESTING) % (1 << 8 * size)
                changed[at : at + size] = number.to_bytes(size, chance.choice(["little", "big"]))
            case 5:
                changed[at:at] = changed[at : at + run] * chance.choice([1, 2, 50])
            case 6:
                begin = chance.randrange(len(other))
                changed[at : at + run] = other[begin : begin + run]
            case 7:
                changed[at:at] = chance.choice(PIECES) * chance.choice([1, 1, 100])
            case 8:
                changed[at : at + run] = bytes(run)
            case 9:
                here = chance.randrange(len(changed))
                changed[at : at + run], changed[here : here + run] = changed[here : here + run], changed[at : at + run]
    return bytes(changed)


def _series(chance: Random) -> pa.Table:
    rows = 40
    numbers = np.random.default_rng(chance.randrange(2**32))
    return pa.table({"t": np.arange(rows), "x": numbers.normal(size=rows).round(4), "y": numbers.integers(0, 9, rows)})


def _text(chance: Random, delimiter: str = ",") -> bytes:
    sink = io.BytesIO()
    pa.csv.write_csv(_series(chance), sink, pa.csv.WriteOptions(delimiter=delimiter))
    return sink.getvalue()


def _json_lines(chance: Random) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in _series(chance).to_pylist()).encode()


def _json(chance: Random) -> bytes:
    rows = _series(chance).to_pylist()
    return json.dumps(rows if chance.random() < 0.5 else {"rows": rows}).encode()


def _zip(chance: Random) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", chance.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
        archive.writestr("a.csv", _text(chance))
    return sink.getvalue()


def _packed(text: bytes, packing: str) -> bytes:
    match packing:
        case "gzip":
            return gzip.compress(text)
        case "bz2":
            return bz2.compress(text)
    return pa.compress(text, packing, asbytes=True)


def _parquet(chance: Random) -> bytes:
    sink = io.BytesIO()
    pq.write_table(_series(chance), sink, row_group_size=16, compression=chance.choice(["none", "snappy", "zstd"]))
    return sink.getvalue()


def _arrow(chance: Random, *, stream: bool = False) -> bytes:
    sink = io.BytesIO()
    table = _series(chance)
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(sink, table.schema) as out:
        out.write_table(table, 16)
    return sink.getvalue()


def _avro(chance: Random) -> bytes:
    import fastavro

    fields = [{"name": "t", "type": "long"}, {"name": "x", "type": "double"}, {"name": "y", "type": ["null", "long"]}]
    schema = {"type": "record", "name": "Row", "fields": fields}
    sink = io.BytesIO()
    codec = chance.choice(["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
    try:
        fastavro.writer(sink, schema, _series(chance).to_pylist(), codec=codec, sync_interval=100)
    except ValueError:  # snappy and zstandard take a library that may not be there
        return _avro(chance)
    return sink.getvalue()


def _npy(chance: Random) -> bytes:
    sink = io.BytesIO()
    np.save(sink, np.random.default_rng(chance.randrange(2**32)).normal(size=(20, 3)).astype("f4"))
    return sink.getvalue()


def _npz(chance: Random) -> bytes:
    sink = io.BytesIO()
    (np.savez if chance.random() < 0.5 else np.savez_compressed)(sink, x=np.load(io.BytesIO(_npy(chance))))
    return sink.getvalue()


def _hdf5(chance: Random) -> bytes:
    import h5py

    sink = io.BytesIO()
    with h5py.File(sink, "w") as file:
        file.create_dataset(
            "x", data=np.load(io.BytesIO(_npy(chance))), chunks=(5, 3) if chance.random() < 0.5 else None
        )
    return sink.getvalue()


def _image(format_: str) -> Callable[[Random], bytes]:
    def make(chance: Random) -> bytes:
        from PIL import Image

        sink = io.BytesIO()
        pixels = np.random.default_rng(chance.randrange(2**32)).integers(0, 256, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(sink, format_)
        return sink.getvalue()

    return make


SERIES = {"kind": "timeseries", "time": {"column": "t"}, "features": ["x", "y"]}
SERIES_JOB = {"source": SERIES, "windows": {"length": 4, "stride": 4}}
ARRAY_JOB = {"source": {"kind": "array", "inputs": {"x": "*"}}}
IMAGE_JOB = {"source": {"kind": "image"}, "label": {"column": "folder", "classes": "auto"}}


@dataclass(frozen=True)
class Format:
    """How good files of a format are made, and the job that reads them.

    Attributes:
      suffix: of the files.
      make: a good file.
      job: without its paths.
      batch: broken files of a job; one where a broken file ends the job.
    """

    suffix: str
    make: Callable[[Random], bytes]
    job: dict
    batch: int = BATCH


FORMATS = {
    "csv": Format(".csv", _text, SERIES_JOB),
    "tsv": Format(".tsv", lambda chance: _text(chance, "\t"), SERIES_JOB),
    "csv.gz": Format(".csv.gz", lambda chance: _packed(_text(chance), "gzip"), SERIES_JOB),
    "csv.bz2": Format(".csv.bz2", lambda chance: _packed(_text(chance), "bz2"), SERIES_JOB),
    "csv.zst": Format(".csv.zst", lambda chance: _packed(_text(chance), "zstd"), SERIES_JOB),
    "jsonl": Format(".jsonl", _json_lines, SERIES_JOB),
    "json": Format(".json", _json, SERIES_JOB),
    "csv in zip": Format(".zip", _zip, SERIES_JOB),
    "parquet": Format(".parquet", _parquet, SERIES_JOB),
    "arrow": Format(".arrow", _arrow, SERIES_JOB),
    "arrow stream": Format(".arrow", lambda chance: _arrow(chance, stream=True), SERIES_JOB),
    "avro": Format(".avro", _avro, SERIES_JOB),
    "npy": Format(".npy", _npy, ARRAY_JOB, 1),
    "npz": Format(".npz", _npz, ARRAY_JOB, 1),
    "hdf5": Format(".h5", _hdf5, ARRAY_JOB, 1),
    "jpeg": Format(".jpg", _image("JPEG"), IMAGE_JOB),
    "png": Format(".png", _image("PNG"), IMAGE_JOB),
    "gif": Format(".gif", _image("GIF"), IMAGE_JOB),
    "bmp": Format(".bmp", _image("BMP"), IMAGE_JOB),
}


def _records(chance: Random, payload: Callable[[bytes], bytes] = bytes) -> bytes:
    """A TFRecord file of Examples, each changed by `payload` before it gets its check sum."""
    import tensorflow as tf

    with tempfile.NamedTemporaryFile() as file:
        with tf.io.TFRecordWriter(file.name) as writer:
            for row in _series(chance).slice(0, 8).to_pylist():
                feature = {
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=[row["x"], row["y"]])),
                    "t": tf.train.Feature(int64_list=tf.train.Int64List(value=[row["t"]])),
                    "name": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"ok"])),
                }
                example = tf.train.Example(features=tf.train.Features(feature=feature))
                writer.write(payload(example.SerializeToString()))
        return Path(file.name).read_bytes()


def adopt_records(folder: Path, chance: Random) -> None:
    """A TFRecord file of others, broken as a file or in its records, as `beamfeed adopt` scans it."""
    from beamfeed.contract import storage
    from beamfeed.transforms.adopt.scan import scan_file

    if chance.random() < 0.5:
        content = broken(_records(chance), _parquet(chance), chance)
    else:
        content = _records(
            chance, lambda record: broken(record, record[::-1], chance) if chance.random() < 0.2 else record
        )
    path = folder / "a.tfrecord"
    path.write_bytes(content)
    scan_file(storage.stat(str(path)))


def load_dataset(folder: Path, chance: Random) -> None:
    """Somebody else's dataset with one broken file, as it is fed."""
    from beamfeed.contract.config.split import SPLITS
    from beamfeed.trainer.feed.sharding import Distribution
    from beamfeed.trainer.numpy_feed.batches import BatchReader

    output = folder / "data"
    shutil.copytree(_dataset(), output)
    names = ("manifest.json", "blocks.parquet", "*.tfrecord")
    path = chance.choice(sorted(output.rglob(chance.choice(names))))
    path.write_bytes(broken(path.read_bytes(), _parquet(chance), chance))
    for split in SPLITS[:1]:
        reader = BatchReader(
            str(output), split, batch_size=4, fields=None, shuffle=8, seed=0, epochs=1, start=(0, 0), remainder="drop",
            lanes=1, distribution=Distribution(), where=None,
        )  # fmt: skip
        for _ in reader.read():
            pass


@cache
def _dataset() -> Path:
    """A small dataset, made once."""
    from beamfeed.pipelines.preprocess import main as preprocess

    folder = Path(tempfile.mkdtemp(prefix="hostile-dataset-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "files").mkdir()
    for number in range(6):
        (folder / "files" / f"{number}.csv").write_bytes(_text(Random(number)))
    job = {"name": "hostile", **SERIES_JOB, "source": {**SERIES, "files": str(folder / "files")}}
    job["split"] = {"train": 1.0, "eval": 0.0, "test": 0.0}
    job["output"] = {"path": str(folder / "data")}
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        assert preprocess(["--job", str(folder / "job.yaml")]) == 0
    return folder / "data"


def load_model(folder: Path, chance: Random) -> None:
    """Somebody else's Keras model, broken as a file or in its configuration, as a warm start loads it."""
    from beamfeed.trainer.loop.warm_start import _load

    good = _model()
    path = folder / "model.keras"
    if chance.random() < 0.3:
        path.write_bytes(broken(good, _npz(chance), chance))
    else:
        with zipfile.ZipFile(io.BytesIO(good)) as read, zipfile.ZipFile(path, "w") as write:
            target = chance.choice(read.namelist())
            for member in read.namelist():
                content = read.read(member)
                write.writestr(member, broken(content, content[::-1], chance) if member == target else content)
    _load(str(path))


@cache
def _model() -> bytes:
    import keras

    layers = [keras.Input((4, 2)), keras.layers.GRU(3), keras.layers.Dense(2)]
    with tempfile.TemporaryDirectory() as folder:
        keras.Sequential(layers).save(Path(folder, "model.keras"))
        return Path(folder, "model.keras").read_bytes()


# What is loaded by itself, one at a time: it makes what it loads in a folder, and raises what it says of it.
LOADED = {"tfrecord (adopt)": adopt_records, "dataset": load_dataset, "model.keras": load_model}
NAMES = [*FORMATS, *LOADED]


@dataclass
class Tally:
    """What became of the broken files of a format.

    Attributes:
      read: came through as if they were good: what was changed is no damage, or cannot be seen.
      set_aside: as rejects with a reason.
      ended: jobs that ended in one line.
      wrong: what must not happen, in words, with the seed.
    """

    read: int = 0
    set_aside: int = 0
    ended: int = 0
    wrong: list[str] = field(default_factory=list)
    slowest: float = 0.0

    @property
    def files(self) -> int:
        return self.read + self.set_aside + self.ended


def write_batch(folder: Path, name: str, seed: int) -> tuple[Path, list[str]]:
    """Good and broken files of a format and the job on them; the names of the broken ones."""
    kind = FORMATS[name]
    chance = Random(f"hostile {name} {seed}")
    files = folder / "files"
    others = [other for other in FORMATS if FORMATS[other].suffix != kind.suffix]
    names = []
    for number in range(kind.batch):
        other = FORMATS[chance.choice(others)].make(chance)
        good = kind.make(chance)
        for stem, content in ((f"good{number}", good), (f"broken{number}", broken(good, other, chance))):
            place = files / ("ab"[number % 2] if kind.job is IMAGE_JOB else "") / f"{stem}{kind.suffix}"
            if kind.job is ARRAY_JOB:  # one job, one file
                if stem.startswith("good"):
                    continue
                place = files / f"x{kind.suffix}"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            if stem.startswith("broken"):
                names.append(str(place))
    job = {"name": "hostile", **kind.job, "limits": {"max_rejected_fraction": 1.0}}
    job["source"] = {**kind.job["source"], "files": str(files)}
    job["split"] = {"train": 1.0, "eval": 0.0, "test": 0.0}
    job["output"] = {"path": str(folder / "data")}
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(job))
    return path, names


def try_batch(folder: Path, name: str, seed: int, tally: Tally) -> None:
    """Reads a batch as `beamfeed check --full` does, and counts what became of it."""
    from beamfeed.pipelines.check import main

    job, names = write_batch(folder, name, seed)
    before = listing(folder)
    out, err = io.StringIO(), io.StringIO()
    began = time.process_time()
    where = f"{name}, seed {seed}"
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = main(["--job", str(job), "--full", "--json"])
    except BaseException:
        tally.wrong.append(f"{where}: {traceback.format_exc().strip().splitlines()[-1]}")
        return
    seconds = time.process_time() - began
    tally.slowest = max(tally.slowest, seconds)
    if seconds > SECONDS_A_FILE * (1 + len(names)):
        tally.wrong.append(f"{where}: {seconds:.0f} s")
    if listing(folder) != before:
        tally.wrong.append(f"{where}: files were changed: {sorted(set(listing(folder)) ^ set(before))[:3]}")
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    checked = next((event for event in events if event.get("event") == "check"), None)
    if code not in (0, 2) or checked is None or "Traceback" in err.getvalue():
        tally.wrong.append(f"{where}: exit {code}: {(err.getvalue() or out.getvalue()).strip()[:300]}")
        return
    if any("\n" in problem for problem in checked.get("problems", ())):
        tally.wrong.append(f"{where}: more than a line: {checked['problems'][0][:300]}")
    if "rejects" not in checked:  # the job ended before it read rows
        tally.ended += len(names)
        return
    aside = {reject["file"]: reject for reject in checked["rejects"]}
    for path, reject in aside.items():
        if path not in names:
            tally.wrong.append(f"{where}: a good file was set aside: {reject['reason'][:200]}")
        elif not reject["reason"] or "\n" in reject["reason"]:
            tally.wrong.append(f"{where}: a reason of no or several lines: {reject['reason'][:200]!r}")
    tally.set_aside += sum(path in aside for path in names)
    tally.read += sum(path not in aside for path in names)


def try_loading(folder: Path, name: str, seed: int, tally: Tally) -> None:
    """Loads one broken file, and counts what became of it."""
    from beamfeed.contract.errors import JobFailed, UserError
    from beamfeed.transforms.rejects import BadInput

    began = time.process_time()
    where = f"{name}, seed {seed}"
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            LOADED[name](folder, Random(f"hostile {name} {seed}"))
        tally.read += 1
    except BadInput as bad:
        tally.set_aside += 1
        if "\n" in bad.reason:
            tally.wrong.append(f"{where}: a reason of several lines: {bad.reason[:200]!r}")
    except (UserError, JobFailed) as error:
        tally.ended += 1
        if "\n" in str(error).strip():
            tally.wrong.append(f"{where}: more than a line: {str(error)[:300]!r}")
    except BaseException:
        tally.ended += 1
        tally.wrong.append(f"{where}: {traceback.format_exc().strip().splitlines()[-1][:300]}")
    seconds = time.process_time() - began
    tally.slowest = max(tally.slowest, seconds)
    if seconds > SECONDS_A_FILE and tally.files > 1:  # the first one loads TensorFlow
        tally.wrong.append(f"{where}: {seconds:.0f} s")


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """All files below a folder, with size and time of their last change."""
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def torture(name: str, files: int, first: int = 0) -> Tally:
    """So many broken files of a format."""
    tally = Tally()
    base = memory_mb()
    seed = first
    while tally.files < files and len(tally.wrong) < 20:
        with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
            (try_batch if name in FORMATS else try_loading)(Path(folder), name, seed, tally)
        seed += 1
    if memory_mb() - base > GROWN_MB:
        tally.wrong.append(f"{name}: memory grew by {memory_mb() - base:,.0f} MB")
    return tally


def opened_elsewhere(name: str, seed: int = 0) -> list[str]:
    """What a run on a batch opens to write outside of its temporary folder, as `strace` sees it."""
    program = (
        "import sys; from pathlib import Path; from tests.torture.hostile import Tally, try_batch; "
        f"try_batch(Path(sys.argv[1]), {name!r}, {seed}, Tally())"
    )
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        log = Path(folder, "opened")
        inside = Path(folder, "batch")
        inside.mkdir()
        watched = ["strace", "-f", "-o", str(log), "-e", "trace=open,openat,creat,rename,unlink,mkdir,link,symlink"]
        command = [*watched, sys.executable, "-B", "-c", program, str(inside)]
        environment = {**os.environ, "TMPDIR": folder}
        subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=300)
        return [path for path in changed_paths(log.read_text()) if not path.startswith((folder, "/dev/", "/proc/"))]


def changed_paths(log: str) -> Iterator[str]:
    """The paths of calls that could change a file and did not fail."""
    for line in log.splitlines():
        call = re.search(r"\b(\w+)\(.*?\"(.+?)\"", line)
        if call is None or re.search(r"= -1 E", line):
            continue
        if call[1] not in ("open", "openat") or re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC)", line):
            yield call[2]


def with_lines(page: str, lines: dict[str, str]) -> str:
    """The page with these lines of its table; those of other formats stay."""
    kept = (section(page, "hostile") or "").splitlines()
    known = {line.split(" | ")[0].removeprefix("| "): line for line in kept} | lines
    return with_section(page, "hostile", "\n".join([*HEAD, *(known[name] for name in NAMES if name in known)]))


def main() -> int:
    """Prints a line for each format."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=10_000, help="of each format")
    parser.add_argument("--formats", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--seed", type=int, default=0, help="of the first batch")
    parser.add_argument("--docs", type=Path, help="the page whose table gets these formats' lines")
    arguments = parser.parse_args()
    lines: dict[str, str] = {}
    wrong: list[str] = []
    for name in arguments.formats:
        tally = torture(name, arguments.files, arguments.seed)
        if name in FORMATS and shutil.which("strace"):
            tally.wrong += [f"{name}: {path} was written" for path in opened_elsewhere(name, arguments.seed)]
        counts = [tally.files, tally.set_aside, tally.ended, tally.read, len(tally.wrong)]
        lines[name] = f"| {name} | {' | '.join(f'{count:,}' for count in counts)} |"
        print(lines[name], f"slowest batch {tally.slowest:.1f} s, {memory_mb():,.0f} MB", flush=True)
        for problem in tally.wrong:
            print("  ", problem, flush=True)
        wrong += tally.wrong
    if arguments.docs:
        arguments.docs.write_text(with_lines(arguments.docs.read_text(), lines))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
