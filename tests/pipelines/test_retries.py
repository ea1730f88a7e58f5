"""Bundles that are tried again, as runners do: whatever was left of the first attempt, the outcome is the same."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.pipeline import PipelineVisitor
from apache_beam.transforms.core import CallableWrapperDoFn
from fleets import files_of, make_table

from beamfeed.pipelines.build import PreprocessPipeline
from beamfeed.transforms.records import tfrecord

pytestmark = pytest.mark.filterwarnings("ignore")


class Injected(Exception):
    pass


class TriedAgain(beam.DoFn):
    """A DoFn whose first attempt fails after its first output, whose second counts, and whose third comes too late."""

    def __init__(self, fn: beam.DoFn):
        self._fn = fn

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        with suppress(Injected):
            for _ in self._fn.process(element, *args, **kwargs) or ():
                raise Injected
        outputs = list(self._fn.process(element, *args, **kwargs) or ())
        list(self._fn.process(element, *args, **kwargs) or ())
        yield from outputs

    def setup(self):
        self._fn.setup()

    def start_bundle(self):
        self._fn.start_bundle()

    def finish_bundle(self):
        return self._fn.finish_bundle()

    def teardown(self):
        self._fn.teardown()


class _Spoil(PipelineVisitor):
    """Wraps every DoFn that is not Beam's own."""

    def __init__(self):
        self.names = []

    def visit_transform(self, applied):
        transform = applied.transform
        if not isinstance(transform, beam.ParDo):
            return
        # A Map's DoFn is Beam's own in any case; it is Beam's step where a transform of Beam's holds it.
        whose = applied.parent.transform if isinstance(transform.fn, CallableWrapperDoFn) else transform.fn
        if not type(whose).__module__.startswith("apache_beam."):
            transform.fn = transform.dofn = TriedAgain(transform.fn)
            self.names.append(applied.full_label)


@pytest.fixture
def spoil(monkeypatch):
    """Spoils the pipelines built from here on; holds the names of the steps that are."""
    spoiled = _Spoil()
    build, shard_records = PreprocessPipeline.build, tfrecord.shard_records
    begun = set()

    def build_and_spoil(self, pipeline):
        build(self, pipeline)
        pipeline.visit(spoiled)

    def fail_in_the_middle(shard, *args):
        for index, record in enumerate(shard_records(shard, *args)):
            if index == 1 and (shard.split, shard.index) not in begun:
                begun.add((shard.split, shard.index))
                raise Injected
            yield record

    monkeypatch.setattr(PreprocessPipeline, "build", build_and_spoil)
    monkeypatch.setattr(tfrecord, "shard_records", fail_in_the_middle)
    return spoiled


@pytest.mark.slow
@pytest.mark.parametrize("per", ["fleet", "asset"])
def test_every_step_tried_again_gives_the_same_files(fleet, spoil, monkeypatch, per):
    for i in range(9):
        fleet.write(f"m{i}.parquet", make_table(3000, seed=i), row_group_size=256)
    fleet.write("broken.parquet", make_table(10)).write_bytes(b"PAR1 this is none PAR1")
    fleet.write("short.parquet", make_table(3))
    fleet.write("twice.parquet", make_table(60, t=np.r_[0:30, 29:59]))
    how = {"fleet": "standard", "asset": "robust"}[per]
    overrides = [f"prepare.scale={{how: {how}, per: {per}}}", "output.shards=2", "windows.length=64"]
    assert fleet.preprocess(f"output.path={fleet.folder}/spoiled", *overrides) == 0
    assert {name.rpartition("/")[2] for name in spoil.names} >= {
        "ReadListing", "ParDo(ScanFile)", "ParDo(PlanAsset)", "Units", "ValidateUnit", "Judge", "TrainingRows",
        "ParDo(TakeApart)", "ScaleOfFleet", "Works", "ParDo(SplitsOfAsset)", "DecideFleet", "PlanShards",
        "ChooseNames", "WriteToTFRecord", "VerifyShard", "PublishManifest",
    } | ({"NameScale", "ScaleLine", "WritePiece", "JoinScales"} if per == "asset" else set())  # fmt: skip
    monkeypatch.undo()
    assert fleet.preprocess(*overrides) == 0
    assert len(fleet.rejects()) == 3
    assert fleet.manifest.counts.rejected_assets == 3
    assert files_of(fleet.folder / "spoiled") == files_of(fleet.output)
    scales = [path.read_bytes() for path in sorted(fleet.folder.glob("*/data-*/transform_fn/assets/*"))]
    assert len(scales) == (2 if per == "asset" else 0)
    assert len(set(scales)) <= 1


@pytest.mark.slow
def test_every_step_of_a_run_that_adds_tried_again_gives_the_same_files(fleet, spoil, monkeypatch):
    fleet.job["source"]["asset"] = {"from": "path", "pattern": "(?P<asset>[^/]+)/[^/]+$"}
    fleet.job["split"] = {"by": "time", "eval_from": 150, "test_from": 260}
    fleet.job["output"]["grow"] = True
    aside = fleet.folder / "aside"
    for name, ends in {**{f"m{i}": (0, 200, 400) for i in range(5)}, "short": (0, 5, 100), "new": (0, 0, 100)}.items():
        table = make_table(400, seed=len(name) + ends[2])
        for day in (0, 1):
            rows = table[ends[day] : ends[day + 1]]
            if len(rows):
                fleet.write(f"{name}/{day}.parquet", rows)

    def grow(output):
        later = sorted(fleet.files.glob("*/1.parquet"))
        aside.mkdir(exist_ok=True)
        for path in later:
            path.rename(aside / path.parent.name)
        assert fleet.preprocess(f"output.path={output}") == 0
        for path in later:
            (aside / path.parent.name).rename(path)
        assert fleet.preprocess(f"output.path={output}") == 0

    grow(fleet.folder / "spoiled")
    assert {name.rpartition("/")[2] for name in spoil.names} >= {
        "ReadKnown", "Tails", "StatTail", "PackTails", "ParDo(ScanFile)", "Reread", "ParDo(PlanAsset)",
    }  # fmt: skip
    monkeypatch.undo()
    grow(fleet.output)
    assert len(fleet.manifest.increments) == 2
    assert files_of(fleet.folder / "spoiled") == files_of(fleet.output)
