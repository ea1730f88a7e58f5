"""Makes the raw input of the benchmarks: one Parquet file of sensor readings per asset, seeded.

    python benchmarks/fleet.py --out out/bench/fleet --assets 8 --rows 250000

Each file holds a timestamp and 8 float32 sensors of noise, which does not compress:
so bytes mean work. Rows are drawn and written a chunk at a time.
"""

import argparse
import os
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SENSORS = tuple(f"sensor_{i}" for i in range(8))
SCHEMA = pa.schema([("timestamp", pa.timestamp("ms")), *((name, pa.float32()) for name in SENSORS)])
START_MS = 1_735_689_600_000  # 2025-01-01
CHUNK_ROWS = 1 << 20  # also a row group: what pandas and pyarrow write by default


def chunks(asset: int, rows: int, seed: int) -> Iterator[pa.RecordBatch]:
    """The rows of one asset, one a second; the first rows are the same whatever their number."""
    rng = np.random.default_rng([seed, asset])
    for first in range(0, rows, CHUNK_ROWS):
        count = min(CHUNK_ROWS, rows - first)
        time = START_MS + 1000 * np.arange(first, first + count)
        columns = [pa.array(time, pa.timestamp("ms"))]
        for i in range(len(SENSORS)):
            noise = rng.standard_normal(count, np.float32)
            columns.append(pa.array(noise * np.float32(i + 1) + np.float32(10 * i + asset % 3)))
        yield pa.record_batch(columns, SCHEMA)


def make_fleet(out: str, assets: int, rows: int, seed: int = 7) -> None:
    """Writes `assets` files of `rows` rows into the folder `out`."""
    os.makedirs(out, exist_ok=True)
    for asset in range(assets):
        with pq.ParquetWriter(os.path.join(out, f"asset-{asset:04d}.parquet"), SCHEMA) as writer:
            for batch in chunks(asset, rows, seed):
                writer.write_batch(batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, help="the folder to write to")
    parser.add_argument("--assets", type=int, default=8)
    parser.add_argument("--rows", type=int, default=250_000, help="rows of each asset")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    make_fleet(args.out, args.assets, args.rows, args.seed)


if __name__ == "__main__":
    main()
