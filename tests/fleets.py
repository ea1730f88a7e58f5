"""Small fleets of series, whole preprocessing runs on them, and their windows read without the project's code."""

import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from tests.framing import read_framed


def make_table(rows: int, seed: int = 0, features: int = 3, **columns: np.ndarray) -> pa.Table:
    """A series with an integer time `t` and float32 features x0, x1, ...; `columns` replace or add."""
    rng = np.random.default_rng(seed)
    found = {"t": np.arange(rows)} | {
        f"x{i}": (rng.normal(size=rows) * (i + 1) + 10 * i).astype("f4") for i in range(features)
    }
    return pa.table({**found, **columns})


class Fleet:
    """A folder of series and the job on it."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.files = folder / "fleet"
        self.files.mkdir(parents=True)
        self.output = folder / "data"
        self.job = {
            "name": "test",
            "source": {
                "kind": "timeseries",
                "files": str(self.files),
                "time": {"column": "t"},
                "features": ["x*"],
            },
            "windows": {"length": 8, "stride": 2},
            "output": {"path": str(self.output)},
            "limits": {"max_rejected_fraction": 0.5},
            "train": {
                "model": {"name": "recurrent_autoencoder", "units": [4], "latent": 2},
                "review": {"baselines": "none"},
                "workdir": str(folder / "model"),
            },
            "launch": {"preprocess": {"workers": 1}, "train": {"workers": 1}},
        }

    def write(self, name: str, table: pa.Table, **options: object) -> Path:
        path = self.files / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".parquet"):
            pq.write_table(table, path, **options)
        else:
            table.to_pandas().to_csv(path, index=False)
        return path

    def write_job(self) -> Path:
        path = self.folder / "job.yaml"
        self.job.setdefault("split", self._split())
        path.write_text(yaml.safe_dump(self.job))
        return path

    def _split(self) -> dict:
        """Fractions and a seed that leave no split of so few assets empty."""
        paths = [path for path in self.files.rglob("*.*") if path.is_file() or path.is_symlink()]
        return split_of(path.name.split(".")[0] for path in paths)

    def preprocess(self, *overrides: str) -> int:
        """Runs the whole preprocessing in this process; returns the exit code."""
        from beamfeed.pipelines.preprocess import main

        argv = ["--job", str(self.write_job())]
        for override in overrides:
            argv += ["--set", override]
        return main(argv)

    @property
    def manifest(self):
        from beamfeed.contract.dataset.manifest import find_manifest

        manifest = find_manifest(str(self.output))
        assert manifest is not None
        return manifest

    def rejects(self) -> list[dict]:
        return [
            json.loads(line)
            for path in self.output.glob("data-*/rejects/*.jsonl")
            for line in path.read_text().splitlines()
        ]

    def windows(self, split: str) -> dict[str, dict[int, np.ndarray]]:
        """Every window of a split by asset and start position, read without any code of the project."""
        return read_windows(self.output, split)

    def labels(self, split: str, name: str = "label") -> dict[str, dict[int, float]]:
        """The label of every window of a split by asset and start position."""
        return read_labels(self.output, split, name)

    def shard_bytes(self) -> dict[str, bytes]:
        folder = self.output / self.manifest.data
        return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.glob("*/*.tfrecord"))}


def split_of(names: Iterable[str]) -> dict:
    """The section `split` that leaves none of the splits empty; with too few assets all train."""
    seed = _seed_of(tuple(sorted(set(names))))
    return {"train": 1, "eval": 0, "test": 0} if seed is None else {"seed": seed}


@cache  # most fleets are of the same few names
def _seed_of(names: tuple[str, ...]) -> int | None:
    from beamfeed.contract.config.split import Split
    from beamfeed.transforms.splits import find_seed

    return find_seed(list(names), Split())


def files_of(folder: Path) -> dict[str, bytes]:
    """A dataset, without its `runs/`. The transform graph is traced anew in each run: of its files only the names."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    found = {name: path for name, path in paths.items() if not name.startswith("runs/")}
    return {name: b"" if "/transform_fn/" in name else path.read_bytes() for name, path in found.items()}


def read_windows(output: Path, split: str) -> dict[str, dict[int, np.ndarray]]:
    manifest = json.loads((output / "manifest.json").read_text())
    length, stride = manifest["windows"]["length"], manifest["windows"]["stride"]
    (width,) = next(field["shape"] for field in manifest["fields"] if field["name"] == "values")
    found: dict[str, dict[int, np.ndarray]] = {}
    for feature in read_records(output, split):
        values = np.array(feature["values"].float_list.value, "f4").reshape(-1, width)
        asset, start = feature["asset"].bytes_list.value[0].decode(), feature["start"].int64_list.value[0]
        for first in range(0, len(values) - length + 1, stride):
            windows = found.setdefault(asset, {})
            assert start + first not in windows, "a window is stored twice"
            windows[start + first] = values[first : first + length]
    return found


def read_labels(output: Path, split: str, name: str) -> dict[str, dict[int, float]]:
    """The label of every window of a split by asset and start position."""
    stride = json.loads((output / "manifest.json").read_text())["windows"]["stride"]
    found: dict[str, dict[int, float]] = {}
    for feature in read_records(output, split):
        asset, start = feature["asset"].bytes_list.value[0].decode(), feature["start"].int64_list.value[0]
        told = feature[name].float_list.value or feature[name].int64_list.value
        for number, value in enumerate(told):
            found.setdefault(asset, {})[start + number * stride] = value
    return found


def read_records(output: Path, split: str) -> Iterator:
    """The features of every record of a split, parsed by protobuf."""
    import tensorflow as tf

    manifest = json.loads((output / "manifest.json").read_text())
    grown = manifest["splits"][split]["shards"].get("file", [])
    paths = [output / name for name in grown] or sorted((output / manifest["data"] / split).glob("*.tfrecord"))
    for path in paths:
        for raw in read_framed(path, manifest["compression"]):
            yield tf.train.Example.FromString(raw).features.feature
