"""Small tables, whole preprocessing runs on them, and their rows read without the project's code."""

import datetime
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf
import yaml

from tests.framing import read_framed

KINDS = ["shop", "fuel", "web", None]
WORDS = ["Win", "a", "prize", "now", "call", "me", "später", "ok"]


def make_table(rows: int, seed: int = 0) -> pd.DataFrame:
    """Rows of several types, some values missing; `row` tells one from another."""
    rng = np.random.default_rng(seed)
    amount = np.exp(rng.normal(3, 1, rows)).astype("f4")
    amount[rng.random(rows) < 0.05] = np.nan
    start = datetime.datetime(2024, 2, 28)
    when = [start + datetime.timedelta(minutes=int(minute)) for minute in rng.integers(0, 4 * 1440, rows)]
    notes = [
        None if rng.random() < 0.05 else " ".join(rng.choice(WORDS, rng.integers(1, 7))) + "!" for _ in range(rows)
    ]
    return pd.DataFrame(
        {
            "row": [f"{seed}-{number}" for number in range(rows)],
            "amount": amount,
            "count": rng.integers(0, 9, rows),
            "kind": rng.choice(np.array(KINDS, object), rows, p=[0.5, 0.3, 0.15, 0.05]),
            "city": [f"city {number}" for number in rng.zipf(1.5, rows).clip(max=400)],
            "note": notes,
            "when": pd.to_datetime(when).astype("datetime64[us]"),
            "customer": rng.integers(0, 60, rows),
            "fraud": (rng.random(rows) < 0.2).astype(int),
        }
    )


FEATURES = {
    "row": "pass",
    "amount": {"type": "numeric", "scale": "log", "indicator": True},
    "count": "numeric",
    "kind": "categorical",
    "city": {"type": "categorical", "min_count": 5, "unseen": 3},
    "city_hash": {"type": "categorical", "column": "city", "hash": 11},
    "amount_bucket": {"type": "bucket", "column": "amount", "buckets": 4},
    "count_bucket": {"type": "bucket", "column": "count", "edges": [2, 5]},
    "note": {"type": "text", "length": 5},
    "when": {"type": "date", "parts": ["hour", "weekday", "day", "month"]},
    "clock": {"type": "date", "column": "when", "parts": ["hour"], "cyclic": True},
    "both": {"type": "cross", "of": ["kind", "city"], "hash": 17},
}


class Lake:
    """A folder of tables and the job on it."""

    def __init__(self, folder: Path):
        self.folder, self.files, self.output = folder, folder / "lake", folder / "data"
        self.files.mkdir(parents=True)
        self.job = {
            "name": "test",
            "source": {"kind": "table", "files": str(self.files), "key": "customer", "time": "when"},
            "features": dict(FEATURES),
            "label": {"column": "fraud", "classes": [0, 1]},
            "split": {"by": "key", "train": 0.6, "eval": 0.2, "test": 0.2},
            "output": {"path": str(self.output)},
            "launch": {"preprocess": {"workers": 1}, "train": {"workers": 1}},
        }

    def write(self, name: str, table: pd.DataFrame, **options: object) -> Path:
        path = self.files / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".parquet"):
            pq.write_table(pa.Table.from_pandas(table, preserve_index=False), path, **options)
        else:
            table.to_csv(path, index=False, **options)
        return path

    def preprocess(self, *overrides: str) -> int:
        """Runs the whole preprocessing in this process; returns the exit code."""
        from beamfeed.pipelines.preprocess import main

        path = self.folder / "job.yaml"
        path.write_text(yaml.safe_dump(self.job, sort_keys=False))
        argv = ["--job", str(path)]
        for override in overrides:
            argv += ["--set", override]
        return main(argv)

    @property
    def manifest(self) -> dict:
        return json.loads((self.output / "manifest.json").read_text())

    @property
    def data(self) -> Path:
        return self.output / self.manifest["data"]

    def rejects(self) -> list[dict]:
        path = self.data / "rejects" / "part-00000.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def shards(self) -> dict[str, bytes]:
        return {str(path.relative_to(self.data)): path.read_bytes() for path in sorted(self.data.rglob("*.tfrecord"))}

    def rows(self, split: str) -> dict[str, dict[str, np.ndarray]]:
        """The fields of each row of a split, by what the field `row` holds; protobuf reads the records."""
        files = self.manifest["splits"][split]["shards"].get("file")
        return self.rows_below(split) if files is None else self._rows_of([self.output / file for file in files])

    def rows_below(self, folder: str) -> dict[str, dict[str, np.ndarray]]:
        """Likewise, of all shards in a folder below that of the data."""
        return self._rows_of(sorted((self.data / folder).rglob("*.tfrecord")))

    def _rows_of(self, paths: list[Path]) -> dict[str, dict[str, np.ndarray]]:
        manifest = self.manifest
        fields = {field["name"]: field for field in manifest["fields"]}
        found = {}
        for path in paths:
            for record in read_framed(path, manifest["compression"]):
                features = tf.train.Example.FromString(record).features.feature
                values = {name: _values(features, field) for name, field in fields.items()}
                for place, name in enumerate(values["row"]):
                    assert name.decode() not in found
                    found[name.decode()] = {one: column[place] for one, column in values.items()}
        return found


def _values(features: dict[str, tf.train.Feature], field: dict) -> np.ndarray | list[np.ndarray]:
    feature = features[field["name"]]
    kind = {"float32": "float_list", "int64": "int64_list", "bytes": "bytes_list"}[field["dtype"]]
    values = np.array(getattr(feature, kind).value, object if field["dtype"] == "bytes" else None)
    if None in field["shape"]:
        lengths = features[field["name"] + ".lengths"].int64_list.value
        return np.split(values, np.cumsum(lengths)[:-1])
    return values.reshape(-1, *field["shape"])
