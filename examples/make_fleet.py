"""Simulates a fleet of pumps: one file of sensor readings per pump, the same bytes for the same seed.

    python examples/make_fleet.py --out out/fleet --assets 12 --rows 20000 --seed 7

Eight sensors at 1 Hz follow a hidden load, which switches between idle, part
and full, and a hidden temperature, which lags behind it. On top of that come
wear, noise, pauses in time, runs of missing values, a sensor that never moves,
and near the end of every fourth pump a fault. The column `fault` says when,
`faults.json` which. Memory stays flat whatever the number of rows.
"""

import argparse
import filecmp
import json
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

SENSORS = (
    "inlet_bar",
    "outlet_bar",
    "flow_m3h",
    "speed_rpm",
    "power_kw",
    "bearing_c",
    "vibration_mm_s",
    "valve_pct",  # never moves
)
SCHEMA = pa.schema(
    [("timestamp", pa.timestamp("ms")), *((name, pa.float32()) for name in SENSORS), ("fault", pa.bool_())]
)
START_MS = 1_735_689_600_000  # 2025-01-01
CHUNK_ROWS = 65_536
REGIMES = (0.1, 0.55, 0.95)  # load when idle, in part and in full load
REGIME_SECONDS = 600  # mean
LOAD_SECONDS, TEMPERATURE_SECONDS = 20.0, 300.0  # how fast the hidden state follows
LONG_PAUSES, SHORT_PAUSES = 1 / 2500, 1 / 800  # per row
MISSING_SLOT, MISSING_RATE = 16, 0.04  # at most one run of 1 to 8 missing values in this many rows
FAULTS = ("bearing", "cavitation", "leak")
FAULT_PART = 0.1  # the last part of the rows of a pump with a fault
OWN_FILES = re.compile(r"asset-\d{3,}\.(parquet|csv)|faults\.json")


@dataclass
class Pump:
    """One pump and the state that it carries from one chunk of rows to the next."""

    rng: np.random.Generator
    rows: int
    fault: str | None
    build: np.ndarray = field(init=False)  # [8] how this pump differs from the others
    load: float = 0.1
    temperature: float = 25.0
    clock_ms: int = START_MS

    def __post_init__(self) -> None:
        self.build = self.rng.normal(1.0, 0.02, len(SENSORS))
        self.build[SENSORS.index("valve_pct")] = 1.0

    def chunks(self) -> Iterator[pa.RecordBatch]:
        for first in range(0, self.rows, CHUNK_ROWS):
            yield self._chunk(first, min(CHUNK_ROWS, self.rows - first))

    def _chunk(self, first: int, rows: int) -> pa.RecordBatch:
        age = (first + np.arange(rows)) / self.rows  # [rows] 0 to 1
        load = lag(self._set_points(rows), LOAD_SECONDS, self.load)
        temperature = lag(25 + 45 * load, TEMPERATURE_SECONDS, self.temperature)
        self.load, self.temperature = load[-1], temperature[-1]
        values = self._sensors(load, temperature, age)
        values[missing_runs(self.rng, rows, len(SENSORS))] = np.nan
        times = pa.array(self._times(rows), pa.timestamp("ms"))
        faulty = pa.array((age >= 1 - FAULT_PART) & (self.fault is not None))
        return pa.record_batch([times, *(pa.array(column) for column in values.T), faulty], SCHEMA)

    def _set_points(self, rows: int) -> np.ndarray:
        """The load asked for, [rows]: a regime for a while, then another."""
        count = 2 + math.ceil(4 * rows / REGIME_SECONDS)
        lengths = 60 + self.rng.exponential(REGIME_SECONDS - 60, count).astype(int)
        levels = self.rng.choice(REGIMES, count) + self.rng.normal(0, 0.03, count)
        asked = np.repeat(levels, lengths)
        return np.resize(asked, rows) + self.rng.normal(0, 0.03, rows)

    def _times(self, rows: int) -> np.ndarray:
        """Milliseconds, [rows]: one second from row to row, but for pauses short and long."""
        steps = np.ones(rows, np.int64)
        short, long = self.rng.random((2, rows)) < [[SHORT_PAUSES], [LONG_PAUSES]]
        steps[short] = self.rng.integers(2, 5, short.sum())
        steps[long] = self.rng.integers(30, 3600, long.sum())
        times = self.clock_ms + 1000 * np.cumsum(steps)
        self.clock_ms = int(times[-1])
        return times

    def _sensors(self, load: np.ndarray, temperature: np.ndarray, age: np.ndarray) -> np.ndarray:
        """The readings, [rows, 8] float32."""
        fault = np.clip((age - (1 - FAULT_PART)) / FAULT_PART, 0, 1) if self.fault else np.zeros_like(age)
        bearing, cavitation, leak = (fault * (self.fault == name) for name in FAULTS)
        wear = age**2
        speed = 0.6 + 0.4 * load
        flow = load * speed * (1 - 0.05 * wear - 0.3 * leak)
        noise = self.rng.standard_normal((len(age), len(SENSORS)))
        columns = {
            "inlet_bar": (1.6 - 0.5 * flow - 0.4 * cavitation, 0.01),
            "outlet_bar": (1 + 6 * speed**2 - 0.3 * wear - 1.5 * leak, 0.04),
            "flow_m3h": (120 * flow, 0.8 + 6 * cavitation),
            "speed_rpm": (1500 * speed, 2.0),
            "power_kw": (4 + 40 * load * speed**2 + 2 * wear + 3 * bearing, 0.25),
            "bearing_c": (temperature + 4 * wear + 25 * bearing, 0.3),
            "vibration_mm_s": (0.8 + 1.4 * load + 0.8 * wear + 5 * bearing + 2 * cavitation, 0.08 + 0.1 * load),
            "valve_pct": (np.full_like(age, 100.0), 0.0),
        }
        readings = [columns[name][0] * self.build[i] + columns[name][1] * noise[:, i] for i, name in enumerate(SENSORS)]
        return np.stack(readings, axis=1).astype(np.float32)


def lag(signal: np.ndarray, seconds: float, before: float) -> np.ndarray:
    """Follows a signal, [rows], as a thermometer does: y[t] = a y[t-1] + (1 - a) signal[t]."""
    keep = math.exp(-1 / seconds)
    block = int(20 * seconds)  # longer ones would leave the range of a float
    followed = np.empty_like(signal)
    for start in range(0, len(signal), block):
        part = signal[start : start + block]
        powers = keep ** np.arange(1, len(part) + 1)
        followed[start : start + block] = powers * (before + (1 - keep) * np.cumsum(part / powers))
        before = followed[start + len(part) - 1]
    return followed


def missing_runs(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Where values are missing, [rows, columns] bool: runs of 1 to 8 rows that never touch."""
    slots = math.ceil(rows / MISSING_SLOT)
    shape = (slots, 1, columns)
    first = rng.integers(0, 8, shape)
    last = first + rng.integers(0, 8, shape)
    place = np.arange(MISSING_SLOT)[None, :, None]
    missing = (rng.random(shape) < MISSING_RATE) & (place >= first) & (place <= last)
    return missing.reshape(slots * MISSING_SLOT, columns)[:rows]


def write_pump(pump: Pump, path: str) -> None:
    """Writes a pump's rows, and leaves a file that holds the same bytes already as it is.

    An untouched file keeps its time of modification, so nothing is preprocessed again.
    """
    temporary = f"{path}.tmp"
    if path.endswith(".csv"):
        with pyarrow.csv.CSVWriter(temporary, SCHEMA) as writer:
            for batch in pump.chunks():
                writer.write_batch(nan_as_null(batch))
    else:
        group = min(CHUNK_ROWS, math.ceil(pump.rows / 4))  # several row groups in small files too
        with pq.ParquetWriter(temporary, SCHEMA, compression="zstd") as writer:
            for batch in pump.chunks():
                writer.write_table(pa.Table.from_batches([batch]), row_group_size=group)
    if os.path.exists(path) and filecmp.cmp(temporary, path, shallow=False):
        os.remove(temporary)
    else:
        os.replace(temporary, path)


def nan_as_null(batch: pa.RecordBatch) -> pa.RecordBatch:
    """An empty field, as CSV files have it, in the place of "nan"."""
    columns = [pa.array(column.to_numpy(zero_copy_only=False), column.type, from_pandas=True) for column in batch]
    return pa.record_batch(columns, batch.schema)


def make_fleet(out: str, assets: int, rows: int, seed: int, file_format: str = "parquet") -> None:
    """Writes the fleet into the folder `out`, in the place of an earlier one."""
    os.makedirs(out, exist_ok=True)
    names = [f"asset-{index:03d}.{file_format}" for index in range(assets)]
    for name in os.listdir(out):
        if OWN_FILES.fullmatch(name) and name not in names:
            os.remove(os.path.join(out, name))
    faults = {}
    for index, name in enumerate(names):
        fault = FAULTS[index // 4 % len(FAULTS)] if index % 4 == 3 else None
        # A generator per pump: the first pumps of a fleet are the same whatever its size.
        write_pump(Pump(np.random.default_rng([seed, index]), rows, fault), os.path.join(out, name))
        if fault:
            faults[name] = {"fault": fault, "from_row": math.ceil(rows * (1 - FAULT_PART))}
    with open(os.path.join(out, "faults.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps(faults, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Simulates a fleet of pumps.")
    parser.add_argument("--out", required=True, help="the folder to write to")
    parser.add_argument("--assets", type=positive, default=12, help="pumps, each a file")
    parser.add_argument("--rows", type=positive, default=20_000, help="rows of each pump, one a second")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--format", choices=("parquet", "csv"), default="parquet")
    args = parser.parse_args()
    make_fleet(args.out, args.assets, args.rows, args.seed, args.format)
    print(f"{args.out}: {args.assets} pumps of {args.rows:,} rows")


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not above zero")
    return number


if __name__ == "__main__":
    main()
