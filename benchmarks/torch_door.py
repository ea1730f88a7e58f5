"""What PyTorch is fed with: `beamfeed.torch_dataset` beside a reader of TFRecords in Python, record by record.

    python benchmarks/torch_door.py --assets 64 --rows 31250 --json out/bench/torch_door.json

Both read the same windows from the page cache, shuffled, as batches of tensors; a turn is a process of its own, and a
figure the median of the turns. The reader of records reads one window each, checks its checksum, parses the Example by
protobuf's C code, mixes windows in a buffer, and stacks batches: what PyTorch's users write, or get from a package.
"""

import argparse
import json
import os
import random
import struct
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import feed_data
import google_crc32c
import numpy as np
import turns
from feed_data import Sizes

OURS, RECORDS = "torch_dataset", "record by record"
WORKERS = (0, 2)
SEGMENTS, WINDOWS = "segments", "windows"


def ours(folder: str, sizes: Sizes, batch: int, shuffle: int) -> Any:
    """Our dataset of a segment's records."""
    import beamfeed

    path = os.path.join(folder, SEGMENTS)
    return beamfeed.torch_dataset(path, feed_data.SPLIT, batch_size=batch, shuffle=shuffle, epochs=None)


def record_by_record(folder: str, sizes: Sizes, batch: int, shuffle: int) -> Any:
    """An IterableDataset over files of one window in a record."""
    import torch
    from torch.utils.data import IterableDataset, get_worker_info

    root = os.path.join(folder, WINDOWS)
    split_folder = os.path.join(root, "data-" + feed_data.FINGERPRINT[:16], feed_data.SPLIT)
    paths = sorted(os.path.join(split_folder, name) for name in os.listdir(split_folder) if name.endswith(".tfrecord"))

    class Records(IterableDataset):
        def __iter__(self) -> Iterator[Any]:
            worker = get_worker_info()
            own_paths = paths[worker.id :: worker.num_workers] if worker else paths
            stack, buffer = [], []
            while True:
                for path in random.sample(own_paths, len(own_paths)):
                    for record in read_records(path):
                        window = torch.from_numpy(parse(record).reshape(sizes.length, sizes.features))
                        if len(buffer) < shuffle:
                            buffer.append(window)
                            continue
                        at = random.randrange(shuffle)
                        stack.append(buffer[at])
                        buffer[at] = window
                        if len(stack) == batch:
                            yield {"values": torch.stack(stack)}
                            stack = []

    return Records()


def read_records(path: str) -> Iterator[bytes]:
    """The records of a file."""
    with open(path, "rb", buffering=1 << 20) as file:
        while head := file.read(12):
            (size,) = struct.unpack("<Q", head[:8])
            data = file.read(size)
            (expected,) = struct.unpack("<I", file.read(4))
            crc = google_crc32c.value(data)
            if ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF != expected:
                raise ValueError(f"{path}: damaged")
            yield data


def parse(record: bytes) -> np.ndarray:
    """The values of an Example, by protobuf."""
    return np.array(_example().FromString(record).features.feature["values"].float_list.value, np.float32)


def _example() -> Any:
    from tensorflow.core.example.example_pb2 import Example

    return Example


READERS = {OURS: ours, RECORDS: record_by_record}


def child(args: argparse.Namespace) -> None:
    sizes = Sizes(args.assets, args.rows, length=args.length, stride=args.stride)
    if args.child == turns.INPUTS:
        feed_data.write_segments(os.path.join(args.folder, SEGMENTS), sizes)
        feed_data.write_windows(os.path.join(args.folder, WINDOWS), sizes)
        return
    from torch.utils.data import DataLoader

    dataset = READERS[args.child](args.folder, sizes, args.batch, args.shuffle)
    loader = DataLoader(dataset, batch_size=None, num_workers=args.workers)
    turns.leave(turns.rate((batch["values"] for batch in loader), args.seconds), args.folder)


def compare(args: argparse.Namespace, folder: str) -> dict[str, dict[str, float]]:
    passed = ("assets", "rows", "length", "stride", "batch", "shuffle", "seconds")
    options = {option: getattr(args, option) for option in passed}
    turns.run_child(__file__, turns.INPUTS, folder, options)
    ways = {f"{name}, {workers} workers": (name, workers) for name in READERS for workers in WORKERS}

    def run(way: str) -> tuple[float, float]:
        name, workers = ways[way]
        return turns.turn(__file__, name, folder, {**options, "workers": workers})

    return turns.compare(list(ways), run, args.repeats)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--assets", type=int, default=64)
    parser.add_argument("--rows", type=int, default=31_250, help="rows of each asset")
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--stride", type=int, default=16)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--shuffle", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=4.0, help="measured in each turn, after half of it to warm up")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", help="file to write to")
    turns.add_child_options(parser)
    parser.add_argument("--workers", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.child:
        child(args)
        return
    with tempfile.TemporaryDirectory(prefix="beamfeed-torch-") as folder:
        result = compare(args, folder)
    for workers in WORKERS:
        ours_, theirs = (result[f"{name}, {workers} workers"] for name in (OURS, RECORDS))
        ours_["times_record_by_record"] = ours_["windows_per_second"] / theirs["windows_per_second"]
    print(json.dumps({"results": result}, indent=1))
    turns.write_json({"results": result}, args.json)


if __name__ == "__main__":
    main()
