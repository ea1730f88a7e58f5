"""A kind of source that the project does not have goes through the whole pipeline: the core knows none.

Lines of text files, each a number and words: `7: a b c`. A record is a line; its number counts, and its words are of
any length.
"""

import json
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.sources.base import SourceSection
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.blocks import read_blocks
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.dataset.manifest import read_manifest
from beamfeed.contract.imports import Later
from beamfeed.contract.progress import Progress
from beamfeed.contract.storage import FileStat
from beamfeed.pipelines.build import PreprocessPipeline, write_listing
from beamfeed.transforms.rejects import BadInput, Reject
from beamfeed.transforms.sources import make_source
from beamfeed.transforms.sources.base import PlainSource
from beamfeed.transforms.sources.descriptors import Asset, Piece, Report, Unit, Work
from beamfeed.transforms.sources.record_block import Ragged, RecordBlock
from beamfeed.transforms.statistics import graph

pytestmark = pytest.mark.filterwarnings("ignore")


class LinesSection(SourceSection):
    suffixes = (".txt",)
    has_graph = True
    kind: Literal["lines"]


def trace_numbers(folder: str) -> None:
    graph.trace(lambda columns, marks: columns, {"number": (tf.int64, ())}, folder)


class LinesJob(Job):
    source: LinesSection


class Lines(PlainSource[Piece, Asset]):
    @classmethod
    def of(cls, job: Job, files: Sequence[FileStat]) -> "Lines":
        return cls(job)

    def scan(self, file: FileStat, scratch: str) -> Iterable[Piece]:
        rows = storage.read_text(file.path).count("\n")
        if not rows:
            raise BadInput(file.path, "file", "has no line")
        return [Piece(Path(file.path).stem, file.path, rows, file=file)]

    def gather(
        self, name: str, pieces: Sequence[Piece], split: SplitName | None, lost: Sequence[Reject]
    ) -> Asset | Reject:
        return Asset(name, tuple(pieces), split)

    def size(self, unit: Unit) -> int:
        return unit.rows * 100

    @property
    def zero(self) -> int:
        return 0

    def validate(self, unit: Unit) -> Report:
        try:
            return Report(unit.index, sum(number for number, _ in self._lines(unit)))
        except BadInput as bad:
            return Report(unit.index, 0, reject=bad.reject(unit.asset.name))

    @property
    def graph(self) -> Later:
        return Later(f"{__name__}:trace_numbers")

    def read(self, work: Work, made: str | None, statistics: int) -> Iterator[RecordBlock]:
        lines = list(self._lines(work.unit))
        size = len(lines)
        words = [word.encode() for _, words in lines for word in words]
        values = {
            "number": np.array([number for number, _ in lines]),
            "share": np.array([number / statistics for number, _ in lines], "f4"),
            "words": Ragged(pa.array(words, pa.binary()), np.array([len(words) for _, words in lines])),
            "file": pa.array([work.unit.asset.name.encode()] * size, pa.binary()),
        }
        yield RecordBlock(work.unit.asset.name, np.arange(size), np.ones(size, np.int64), values)

    def fields(self, statistics: int) -> list[Field]:
        return [
            Field(name="words", dtype="bytes", shape=(None,), role="input"),
            Field(name="number", dtype="int64", role="target"),
            Field(name="share", dtype="float32", role="weight"),
            Field(name="file", dtype="bytes", role="key", per="record"),
        ]

    def stats(self, statistics: int) -> Any:
        return {"sum": statistics}

    def _lines(self, unit: Unit) -> Iterator[tuple[int, list[str]]]:
        (piece,) = unit.asset.pieces
        for row, line in enumerate(storage.read_text(piece.path).splitlines()):
            number, colon, words = line.partition(":")
            if not colon:
                raise BadInput(piece.path, f"line {row + 1}", "has no colon")
            yield int(number), words.split()


@pytest.fixture
def kind(monkeypatch):
    """The kind as a folder of its own would be found."""
    module = types.ModuleType("beamfeed.transforms.sources.lines.source")
    module.SOURCE = Lines
    monkeypatch.setitem(sys.modules, "beamfeed.transforms.sources.lines", types.ModuleType("lines"))
    monkeypatch.setitem(sys.modules, "beamfeed.transforms.sources.lines.source", module)


def make_job(folder: Path, **sections: Any) -> tuple[LinesJob, list[FileStat]]:
    thirds = {"train": 0.4, "eval": 0.3, "test": 0.3}
    given = {"limits": {"max_rejected_fraction": 0.5}, "split": thirds, **sections}
    job = LinesJob.model_validate({
        "name": "lines", "source": {"kind": "lines", "files": str(folder / "in")},
        "output": {"path": str(folder / "data")}, **given,
    })  # fmt: skip
    return job, storage.match(job.source.files, job.source.suffixes)


def run(job: LinesJob, files: list[FileStat]) -> None:
    source, files = make_source(job, files)
    layout = DataLayout.of(job.output.path, "a" * 64)
    write_listing(layout, files)
    source.graph(layout.traced)
    pipeline = beam.Pipeline(FnApiRunner())
    PreprocessPipeline(source, layout, "a" * 64, len(files), Progress()).build(pipeline)
    pipeline.run()


@pytest.fixture
def texts(tmp_path) -> dict[str, list[str]]:
    """Ten files of lines, which are also written."""
    found = {f"f{i}": [f"{i * 7 + k}: {' '.join('abc'[: k % 4])}" for k in range(5)] for i in range(10)}
    (tmp_path / "in").mkdir()
    for name, lines in found.items():
        (tmp_path / "in" / f"{name}.txt").write_text("".join(line + "\n" for line in lines))
    return found


@pytest.mark.usefixtures("kind")
def test_a_kind_of_its_own_is_prepared_whole(tmp_path, texts):
    (tmp_path / "in" / "empty.txt").touch()
    (tmp_path / "in" / "odd.txt").write_text("1: a\n2 b\n")
    job, files = make_job(tmp_path)
    run(job, files)
    manifest = read_manifest(job.output.path)
    found: dict[str, list[str]] = {}
    training = 0
    for split, info in manifest.splits.items():
        blocks = read_blocks(job.output.path, manifest, split)
        assert sum(blocks["windows"].to_pylist()) == info.windows == info.records == 5 * info.assets
        numbers = []
        for path in manifest.shard_paths(job.output.path, split):
            for raw in tf.data.TFRecordDataset(path).as_numpy_iterator():
                feature = tf.train.Example.FromString(raw).features.feature
                (number,), words = feature["number"].int64_list.value, feature["words"].bytes_list.value
                assert feature["words.lengths"].int64_list.value[0] == len(words)
                name = feature["file"].bytes_list.value[0].decode()
                found.setdefault(name, []).append(f"{number}: {b' '.join(words).decode()}")
                numbers.append(number)
        target = info.targets["number"]
        assert (target.mean, target.min, target.max) == (np.mean(numbers), min(numbers), max(numbers))
        training += sum(numbers) if split == "train" else 0
    assert found == texts
    assert manifest.kind == "lines"
    folder = tmp_path / "data" / manifest.data
    assert json.loads((folder / "stats.json").read_text()) == {"sum": training}
    rejects = [json.loads(line) for line in (folder / "rejects/part-00000.jsonl").read_text().splitlines()]
    assert [(r["asset"], r["place"], r["reason"]) for r in rejects] == [
        ("empty", "file", "has no line"), ("odd", "line 2", "has no colon"),
    ]  # fmt: skip


@pytest.mark.usefixtures("kind", "texts")
def test_the_first_assets_are_taken_by_the_names_of_files(tmp_path):
    job, files = make_job(tmp_path, source={"kind": "lines", "files": str(tmp_path / "in"), "max_assets": 3})
    _, first = make_source(job, files)
    assert [Path(stat.path).stem for stat in first] == ["f0", "f1", "f2"]


@pytest.mark.usefixtures("kind", "texts")
def test_a_split_that_a_kind_does_not_know_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"split.by: time does not go with source.kind: lines \(allowed: asset\)"):
        make_job(tmp_path, split={"by": "time"})
