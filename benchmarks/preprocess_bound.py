"""The bound: the least that any preprocessing has to do, in one process and without a framework.

    python benchmarks/preprocess_bound.py --input DIR --output DIR

pyarrow reads the Parquet, NumPy standardizes, and runs of rows of about 256 KB go
into one file in TFRecord framing (length, checksum, bytes, checksum). A record is
the bare float32 [rows, sensors]: no Example, no name, no time.

It is not for use: the fleet has to fit in memory, nothing is checked, nothing is
read back, and a run that is cut off leaves half a file.
"""

import argparse
import glob
import os
import struct

import google_crc32c
import numpy as np
import pyarrow.parquet as pq

LENGTH, STRIDE = 64, 16
RECORD_BYTES = 256 << 10
STATS_ROWS = 1 << 16  # at a time, so that they stay in the processor's cache


def read(path: str) -> np.ndarray:
    """The sensors of a file, float32 [rows, sensors]."""
    names = [name for name in pq.read_schema(path).names if name != "timestamp"]
    table = pq.read_table(path, columns=names)
    values = np.empty((table.num_rows, len(names)), np.float32)
    for i, name in enumerate(names):
        values[:, i] = table[name].to_numpy()
    return values


def mean_and_std(fleet: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """float32 [sensors] each, over all rows; summed in float64 around the first row."""
    centre = fleet[0][0].astype(np.float64)
    count, total, squares = 0, np.zeros_like(centre), np.zeros_like(centre)
    for values in fleet:
        for at in range(0, len(values), STATS_ROWS):
            part = values[at : at + STATS_ROWS] - centre
            total += part.sum(axis=0)
            squares += np.einsum("ij,ij->j", part, part)
        count += len(values)
    mean = total / count
    return (centre + mean).astype(np.float32), np.sqrt(squares / count - mean**2).astype(np.float32)


def masked_crc(data: bytes | memoryview) -> bytes:
    crc = google_crc32c.value(bytes(data))
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def frame(record: bytes) -> tuple[bytes, ...]:
    """A record as it stands in a TFRecord file."""
    length = struct.pack("<Q", len(record))
    return length, masked_crc(length), record, masked_crc(record)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    args = parser.parse_args()
    os.makedirs(args.output, exist_ok=True)
    fleet = [read(path) for path in sorted(glob.glob(os.path.join(args.input, "*.parquet")))]
    mean, std = mean_and_std(fleet)
    # Each run of rows holds whole windows, and shares length - stride rows with the next.
    windows = max(1, (RECORD_BYTES // (4 * len(mean)) - LENGTH) // STRIDE + 1)
    with open(os.path.join(args.output, "data.tfrecord"), "wb", buffering=1 << 20) as file:
        for values in fleet:
            for first in range(0, len(values) - LENGTH + 1, windows * STRIDE):
                run = values[first : first + (windows - 1) * STRIDE + LENGTH]
                run = run[: (len(run) - LENGTH) // STRIDE * STRIDE + LENGTH]
                file.writelines(frame(((run - mean) / std).tobytes()))


if __name__ == "__main__":
    main()
