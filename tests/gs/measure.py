"""Measures what gs:// costs, against the stand-in: `python tests/gs/measure.py`. The figures of docs/gs.md are its.

Every request takes 30 ms longer than on loopback, as about in a region of Google's.
"""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

LATENCY = 0.03  # seconds
BLOCKS = (1, 2, 4, 8, 16, 64)  # MB
SHARD = 128 << 20  # bytes
TRAINING_KINDS = (("list", "metadata", "read"), ("write", "copy", "delete"))  # left and right of the megabytes

READER = """
import os, random, sys, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
how, path = sys.argv[1:]
def peak():  # kB of this program; ru_maxrss would be that of the one that started it
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
tf.data.TFRecordDataset([])
before, begin = peak(), time.perf_counter()
if how == "back":
    with tf.io.gfile.GFile(path, "rb") as file:
        while file.read(8 << 20):
            pass
    sum(1 for _ in tf.data.TFRecordDataset(path, buffer_size=8 << 20))
else:
    size, chosen = tf.io.gfile.stat(path).length, random.Random(7)
    with tf.io.gfile.GFile(path, "rb") as file:
        for _ in range(64):
            file.seek(chosen.randrange(size - (1 << 20)))
            assert len(file.read(1 << 20)) == 1 << 20
seconds = time.perf_counter() - begin
print(f"{seconds:.1f} {(peak() - before) / 1024:.0f}")
"""


def measure_blocks(gs) -> None:
    """Reading a shard of 128 MB twice in order, as verification does, and 64 ranges of 1 MB anywhere in it."""
    import struct

    import google_crc32c

    def mask(data: bytes) -> bytes:
        crc = google_crc32c.value(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    payload = bytes(256 << 10)
    head = struct.pack("<Q", len(payload))
    record = head + mask(head) + payload + mask(payload)
    gs.store.put(gs.bucket, "shard", record * (SHARD // len(record)))
    print("| block | how | requests | MB read | seconds | memory MB |\n| --- | --- | --- | --- | --- | --- |")
    for how in ("back", "ranges"):
        for block in BLOCKS:
            gs.ledger.reset()
            done = gs.python("-c", READER, how, gs.url("shard"), GCS_READ_CACHE_BLOCK_SIZE_MB=str(block))
            assert done.returncode == 0, done.stderr
            counts = gs.counts()
            seconds, memory = done.stdout.split()
            megabytes = counts.read_bytes / 2**20
            print(f"| {block} MB | {how} | {counts.requests['read']} | {megabytes:.0f} | {seconds} | {memory} |")


def measure_runs(gs, folder: Path) -> None:
    """The requests of whole runs of preprocessing; under `source` those for its files: list, stat, range."""
    from fleets import Fleet, make_table

    print("\n| files | MB | list | metadata | read | MB read | write | copy | delete | source |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for files, rows in ((4, 20_000), (40, 20_000), (4, 1_000_000)):
        gs.reset()
        fleet = Fleet(folder / f"{files}-{rows}")
        for index in range(files):
            fleet.write(f"m{index}.parquet", make_table(rows, seed=index, features=8))
        gs.upload(fleet.files, "fleet")
        size = sum(path.stat().st_size for path in fleet.files.iterdir()) / 2**20
        fleet.job["source"]["files"], fleet.job["output"]["path"] = gs.url("fleet"), gs.url("data")
        done = gs.preprocess("--job", str(fleet.write_job()), timeout=300)
        assert done.returncode == 0, done.stderr
        counts = gs.counts()
        of_kind = [counts.requests[kind] for kind in ("list", "metadata")]
        rest = [counts.requests[kind] for kind in ("write", "copy", "delete")]
        own = gs.source_requests("fleet")
        print(f"| {files} | {size:.0f} | {of_kind[0]} | {of_kind[1]} | {counts.requests['read']} | "
              f"{counts.read_bytes / 2**20:.0f} | {' | '.join(map(str, rest))} | "
              f"{own['list']}, {own['stat']}, {own['range']} |")  # fmt: skip


EPOCH = """
import sys, time
from beamfeed.trainer.feed.dataset import load_dataset
begin = time.perf_counter()
for _ in load_dataset(sys.argv[1], "train", batch_size=64, shuffle=10_000):
    pass
print(f"{time.perf_counter() - begin:.1f}")
"""


def measure_feeding(gs, folder: Path) -> None:
    """An epoch of the trainer's feed from 16 MB of shards, by what TensorFlow is told of gs://."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import feed_data

    gs.reset()
    feed_data.write_segments(str(folder / "feed"), feed_data.Sizes(16, 31_250, shards=4))
    output = gs.upload(folder / "feed", "feed")
    print("\n| block | cache | requests | MB read | seconds |\n| --- | --- | --- | --- | --- |")
    for block, cache in ((64, 0), (2, 0), (1, 0), (2, 256), (1, 256)):
        gs.ledger.reset()
        told = {"GCS_READ_CACHE_BLOCK_SIZE_MB": str(block), "GCS_READ_CACHE_MAX_SIZE_MB": str(cache)}
        done = gs.python("-c", EPOCH, output, TF_CPP_MIN_LOG_LEVEL="3", **told)
        assert done.returncode == 0, done.stderr
        counts = gs.counts()
        megabytes = counts.read_bytes / 2**20
        print(f"| {block} MB | {cache} MB | {counts.requests['read']} | {megabytes:.0f} | {done.stdout.strip()} |")


def measure_training(gs, folder: Path) -> None:
    """The requests of whole training runs, from start to export, on one dataset of a megabyte."""
    from fleets import Fleet, make_table

    gs.reset()
    fleet = Fleet(folder / "training")
    for index in range(8):
        fleet.write(f"m{index}.parquet", make_table(10_000, seed=index))
    fleet.job["source"]["files"], fleet.job["output"]["path"] = gs.upload(fleet.files, "fleet"), gs.url("data")
    done = gs.preprocess("--job", str(fleet.write_job()), timeout=300)
    assert done.returncode == 0, done.stderr
    print("\n| epochs | workers | list | metadata | read | MB read | write | copy | delete |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for epochs, workers in ((1, 1), (5, 1), (5, 2)):
        fleet.job["train"] |= {"workdir": gs.url(f"model-{epochs}-{workers}"), "epochs": epochs}
        fleet.job["launch"]["train"]["workers"] = workers
        gs.ledger.reset()
        done = gs.python("-m", "beamfeed.launcher.cli", "train", str(fleet.write_job()), timeout=300)
        assert done.returncode == 0, done.stderr
        counts = gs.counts()
        before, after = ([counts.requests[kind] for kind in kinds] for kinds in TRAINING_KINDS)
        cells = [epochs, workers, *before, f"{counts.read_bytes / 2**20:.0f}", *after]
        print(f"| {' | '.join(map(str, cells))} |")


def main() -> None:
    from cloud.standin import start_cloud

    with tempfile.TemporaryDirectory() as name, start_cloud(Path(name), ROOT) as gs:
        gs.proxy.latency = LATENCY
        measure_feeding(gs, Path(name))
        measure_blocks(gs)
        measure_runs(gs, Path(name))
        measure_training(gs, Path(name))


if __name__ == "__main__":
    main()
