"""What preprocessing costs: rows that are decoded, and what descriptors weigh."""

import pickle
import re
from collections import Counter
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.pipeline import PipelineVisitor
from apache_beam.runners.portability.fn_api_runner import fn_runner
from apache_beam.runners.worker import bundle_processor
from fleets import make_table, split_of

from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.storage import FileStat
from beamfeed.pipelines import build
from beamfeed.pipelines.build import PreprocessPipeline
from beamfeed.transforms import packing
from beamfeed.transforms.records import shard_plan
from beamfeed.transforms.sources.readers import Group, expected, iter_batches, parquet
from beamfeed.transforms.sources.timeseries import plan
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset, cut_units
from beamfeed.transforms.sources.timeseries.scan import FileSlice
from beamfeed.transforms.sources.timeseries.windowing import Windowing


@pytest.fixture
def decoded(monkeypatch):
    """The rows that were decoded of Parquet, and how often a file was opened."""
    found = {"rows": 0, "opened": 0}
    original, opened = parquet._decoded, parquet.open_parquet

    def count(*args):
        for batch in original(*args):
            found["rows"] += batch.num_rows
            yield batch

    def count_open(*args):
        found["opened"] += 1
        return opened(*args)

    monkeypatch.setattr(parquet, "_decoded", count)
    monkeypatch.setattr(parquet, "open_parquet", count_open)
    return found


GRID = {"resample": {"every": 2}}


@pytest.mark.parametrize(("per_group", "prepare"), [(500, {}), (3000, GRID), (20_000, {}), (20_000, GRID)])
def test_no_row_is_decoded_much_more_than_once_a_pass(fleet, monkeypatch, decoded, per_group, prepare):
    monkeypatch.setattr(plan, "UNIT_BYTES", 4 * 3 * 1000)  # so that a group would have been several units
    monkeypatch.setattr(expected, "BATCH_BYTES", 4 * 4 * 100)
    for i in range(2):
        fleet.write(f"m{i}.parquet", make_table(20_000, seed=i), row_group_size=per_group)
    fleet.job |= {"split": {"train": 1, "eval": 0, "test": 0}, "prepare": prepare}
    assert fleet.preprocess() == 0
    units = sum(len(windows) for windows in fleet.windows("train").values())
    assert units == 2 * ((10_000 if prepare else 20_000) - 8) // 2 + 2
    assert decoded["rows"] <= 1.3 * 2 * 40_000


def test_a_file_that_mixes_assets_is_read_a_few_times_however_many_they_are(fleet, decoded):
    rows = 8000
    names = [f"m{i:02d}" for i in range(80)]
    table = make_table(rows, machine=pa.array([names[i % 80] for i in range(rows)]))
    fleet.write("all.parquet", table, row_group_size=1000)
    fleet.job["source"]["asset"] = {"column": "machine"}
    fleet.job["split"] = split_of(names)
    assert fleet.preprocess() == 0
    assert decoded["rows"] <= 3 * rows


def test_of_a_split_by_time_only_what_overlaps_is_read_and_no_shard_is_empty(fleet, monkeypatch, decoded):
    monkeypatch.setattr(plan, "UNIT_BYTES", 4 * 3 * 1000)
    for i in range(20):
        fleet.write(f"m{i}.parquet", make_table(4000, seed=i), row_group_size=500)
    fleet.job["split"] = {"by": "time", "train": 0.8, "eval": 0.1, "test": 0.1}
    assert fleet.preprocess() == 0
    for info in fleet.manifest.splits.values():
        assert all(shard.records for shard in info.shards)
    assert decoded["rows"] <= 1.3 * 2 * 80_000


def test_units_and_works_of_an_asset_of_many_files_hold_their_own_files_alone():
    pieces = tuple(
        FileSlice("m", f"fleet/m/day-{i:05d}.parquet", 1000, 1000 * i, 1000 * i + 999, (Group(0, 1000, 0),))
        for i in range(4000)
    )
    asset = SeriesAsset("m", pieces, "train", total=4_000_000, last=3_999_999)
    windowing = Windowing(length=8, stride=2, windows_per_segment=5, block=100, before=0, after=7)
    units = list(cut_units(asset, windowing, features=1000))
    assert sum(unit.rows for unit in units) == 4_000_000
    assert sum(len(pickle.dumps(unit)) for unit in units) < 3 * len(pickle.dumps(asset))


def test_many_small_files_are_few_elements(new_fleet, monkeypatch):
    """Of all that is handed on between steps: an element for each file would be what the job's memory grows with."""
    handed_on = Counter()
    process = bundle_processor.DataOutputOperation.process

    def count(self, element):
        handed_on[self.name_context.step_name] += 1
        return process(self, element)

    monkeypatch.setattr(bundle_processor.DataOutputOperation, "process", count)
    for module in (packing, shard_plan):
        monkeypatch.setattr(module, "BUCKETS", 4)
    monkeypatch.setattr(build, "LEAST_RUNS", 2)
    totals = []
    for files in (40, 160):
        fleet = new_fleet(str(files))
        for i in range(files):
            fleet.write(f"m{i:03d}.csv", make_table(20, seed=i))
        fleet.job["output"]["shards"] = 2
        handed_on.clear()
        assert fleet.preprocess() == 0
        assert fleet.manifest.counts.files == files
        assert not fleet.rejects()
        totals.append(handed_on.total())
    few, many = totals
    assert many < few + 40, handed_on


def test_a_listed_file_weighs_little(tmp_path):
    paths = [f"gs://raw/fleet/{i // 100:03d}/m{i:06d}.csv" for i in range(20_000)]
    files = [FileStat(path, 500 + i % 37, 17 * 10**17 + 7919 * i) for i, path in enumerate(paths)]
    layout = DataLayout.of(str(tmp_path), "0" * 32)
    build.write_listing(layout, files)
    runs = list(build.read_listing(layout.listing))
    assert [file for run in runs for file in run] == files
    assert sum(len(pickle.dumps(run)) for run in runs) < 30 * len(files)


class Anything:
    """What is expected of a file of which nothing is."""

    text = expected.TextOptions()

    def check(self, path, schema):
        pass


def test_very_long_texts_are_read_some_rows_at_a_time(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcdefgh"), 3000)) for _ in range(300)]
    table = pa.table({"a.text": texts, "number": np.arange(300)})
    path = str(tmp_path / "long.parquet")
    parquet.pq.write_table(table, path, row_group_size=200)
    monkeypatch.setattr(parquet, "TEXT_BYTES", 64 << 10)
    batches = [batch for _, _, batch in iter_batches(path, Anything(), ["a.text", "number"])]
    assert pa.Table.from_batches(batches).equals(table)
    assert max(batch.nbytes for batch in batches) < 70 << 10
    # A column beside it, by itself, is read as always.
    assert [batch.num_rows for _, _, batch in iter_batches(path, Anything(), ["number"])] == [200, 100]


def test_very_many_columns_are_decoded_some_at_a_time(tmp_path, monkeypatch):
    names = [f"x{i}" for i in range(300)]
    table = pa.table({name: np.arange(i, i + 500, dtype="f4") for i, name in enumerate(names)})
    path = str(tmp_path / "wide.parquet")
    parquet.pq.write_table(table, path, row_group_size=200)

    monkeypatch.setattr(parquet, "DECODE_BYTES", 1)
    monkeypatch.setattr(expected, "BATCH_BYTES", 300 * 4 * 64)
    batches = [batch for _, _, batch in iter_batches(path, Anything(), names)]
    assert pa.Table.from_batches(batches).equals(table)
    assert max(batch.num_rows for batch in batches) == 64


WEIGHTS: dict[str, int] = {}  # of the heaviest element, in bytes, by step


def weigh(element: object, step: str) -> None:
    WEIGHTS[step] = max(WEIGHTS.get(step, 0), len(pickle.dumps(element)))


class Collections(PipelineVisitor):
    """The PCollections of a pipeline, but for those within a combination, which a runner takes apart."""

    def __init__(self):
        self.found = []

    def visit_value(self, value, producer_node):
        within, node = False, producer_node.parent
        while node is not None:
            within |= isinstance(node.transform, beam.CombinePerKey | beam.CombineGlobally)
            node = node.parent
        if isinstance(value, beam.PCollection) and not within:
            self.found.append((producer_node.full_label, value))


@pytest.mark.slow
def test_no_element_is_of_the_fleets_size(new_fleet, monkeypatch):
    """The heaviest element of each step, of 10 assets and of 50."""
    build_whole = PreprocessPipeline.build

    def build_and_weigh(self, pipeline):
        build_whole(self, pipeline)
        collections = Collections()
        pipeline.visit(collections)
        for number, (step, found) in enumerate(collections.found):
            _ = found | f"Weigh{number}" >> beam.Map(weigh, step)

    monkeypatch.setattr(PreprocessPipeline, "build", build_and_weigh)
    monkeypatch.setattr(shard_plan, "SHARD_BYTES", 4 * 3 * 100)  # an asset or two in each
    monkeypatch.setattr(shard_plan, "SHARD_MULTIPLE", 1)
    heaviest = []
    for assets in (10, 50):
        fleet = new_fleet(str(assets))
        for i in range(assets):
            fleet.write(f"m{i:02d}.parquet", make_table(100, seed=i))
        fleet.job |= {
            "prepare": {"scale": {"per": "asset"}},
            "split": {"by": "time", "train": 0.6, "eval": 0.2, "test": 0.2},
        }
        WEIGHTS.clear()
        assert fleet.preprocess() == 0
        heaviest.append(dict(WEIGHTS))
    few, many = heaviest
    assert len(few) > 30
    grown = {step: (few[step], many[step]) for step in few if many[step] > 1.3 * few[step] + 100}
    # The manifest lists the shards; test_manifest.py says how large it is. Values of a group come one by one.
    assert {step for step in grown if step not in ("PublishManifest", "GroupByPiece")} == set(), grown


def test_stages_and_shuffles_are_as_many_as_the_page_says(fleet, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
    stages, shuffles = map(int, re.search(r"(\d+) fused stages\s+and\s+(\d+) shuffles", page).groups())
    create, found = fn_runner.FnApiRunner.create_stages, []

    def count(self, pipeline):
        context, fused = create(self, pipeline)
        urns = [step.spec.urn for step in pipeline.components.transforms.values()]
        found.append((len(fused), urns.count("beam:transform:group_by_key:v1")))
        return context, fused

    monkeypatch.setattr(fn_runner.FnApiRunner, "create_stages", count)
    fleet.write("m0.parquet", make_table(40))
    fleet.job["split"] = {"train": 1, "eval": 0, "test": 0}
    assert fleet.preprocess() == 0
    assert found == [(stages, shuffles)]
