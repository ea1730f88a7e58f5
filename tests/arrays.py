"""Small files of arrays, whole preprocessing runs on them, and their rows read without the project's code."""

import json
from pathlib import Path

import numpy as np
import tensorflow as tf
import yaml

from tests.framing import read_framed


class Pile:
    """A folder of arrays and the job on it."""

    def __init__(self, folder: Path, **source: object):
        self.folder, self.files, self.output = folder, folder / "arrays", folder / "data"
        self.files.mkdir(parents=True, exist_ok=True)
        self.job = {
            "name": "test",
            "source": {"kind": "array", "files": str(self.files), **source},
            "split": {"train": 0.6, "eval": 0.2, "test": 0.2},
            "output": {"path": str(self.output)},
            "launch": {"preprocess": {"workers": 1}, "train": {"workers": 1}},
        }

    def write(self, name: str, values: np.ndarray, cuts: tuple[int, ...] = ()) -> None:
        """One `.npy`, or with cuts several, `name-0.npy` and so on."""
        parts = np.split(values, cuts) if cuts else [values]
        for number, part in enumerate(parts):
            np.save(self.files / (f"{name}-{number}.npy" if cuts else f"{name}.npy"), part)

    def job_file(self) -> str:
        path = self.folder / "job.yaml"
        path.write_text(yaml.safe_dump(self.job, sort_keys=False))
        return str(path)

    def preprocess(self, *overrides: str) -> int:
        """Runs the whole preprocessing in this process; returns the exit code."""
        from beamfeed.pipelines.preprocess import main

        argv = ["--job", self.job_file()]
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

    def rows(self, split: str) -> dict[int, dict[str, object]]:
        """The fields of each row of a split, by its number; protobuf reads the records."""
        manifest = self.manifest
        fields = {field["name"]: field for field in manifest["fields"]}
        found: dict[int, dict[str, object]] = {}
        of_runs = manifest["splits"][split]["shards"].get("file")
        below = sorted((self.data / split).rglob("*.tfrecord"))
        for path in below if of_runs is None else [self.output / name for name in of_runs]:
            for record in read_framed(path):
                features = tf.train.Example.FromString(record).features.feature
                values = {name: _values(features[name], field) for name, field in fields.items()}
                for place, number in enumerate(values["row"]):
                    assert int(number) not in found
                    found[int(number)] = {one: column[place] for one, column in values.items()}
        return found


def _values(feature: tf.train.Feature, field: dict) -> np.ndarray:
    dtype, shape = field["dtype"], field["shape"]
    if dtype in ("float32", "int64"):
        listed = feature.float_list if dtype == "float32" else feature.int64_list
        return np.array(listed.value, dtype).reshape(-1, *shape)
    values = feature.bytes_list.value
    if dtype == "bytes":
        return np.array(values, object).reshape(-1, *shape)
    return np.stack([np.frombuffer(value, np.dtype(dtype).newbyteorder("<")).reshape(shape) for value in values])
