"""Plans fleets of more and more assets of 300 MB, with the code that plans a job: the figures of docs/scale.md.

    python benchmarks/scale.py

Nothing is read or written: an asset is the descriptor that its Parquet footer would give. Each fleet is planned in a
process of its own; its memory is what it needs beyond that of a fleet of one.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from measure import measure

from beamfeed.contract.config.load import parse_job
from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.blocks import write_blocks
from beamfeed.contract.dataset.manifest import Shard, SplitInfo
from beamfeed.transforms.records.blocks import cut_blocks, index_table
from beamfeed.transforms.records.shard_plan import Sized, plan_shards
from beamfeed.transforms.sources.columns.time_units import TimeUnits
from beamfeed.transforms.sources.readers import Group
from beamfeed.transforms.sources.timeseries.classes import SeenClasses
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset, Span
from beamfeed.transforms.sources.timeseries.scan import FileSlice
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema
from beamfeed.transforms.sources.timeseries.source import Timeseries
from beamfeed.transforms.sources.timeseries.spec import PreprocessSpec
from beamfeed.transforms.sources.timeseries.verdict import SeriesVerdict, UnitFacts
from beamfeed.transforms.sources.timeseries.windowing import SEGMENT_BYTES

FLEETS = (1, 10, 1_000, 100_000)
SAMPLE = 100  # shards whose blocks are cut
# As the fleets of run.py: 53 MB of Parquet and 32 MB of float32 for a million rows.
ASSET_ROWS, GROUP_ROWS, SENSORS = 5_700_000, 1_000_000, 8
PARQUET_MB_OF_A_MILLION_ROWS = 53
BYTES_OF_A_ROW = 4 * SENSORS
WINDOWS = Windows(length=64, stride=16)
JOB = """
name: scale
source: {kind: timeseries, files: "gs://raw/*.parquet", time: {column: t}, features: ["x*"]}
windows: {length: 64, stride: 16}
output: {path: "gs://made/data"}
train: {model: {name: recurrent_autoencoder}, workdir: "gs://made/model"}
"""


def descriptor(number: int) -> FileSlice:
    groups = [GROUP_ROWS] * (ASSET_ROWS // GROUP_ROWS) + [ASSET_ROWS % GROUP_ROWS]
    name = f"asset-{number:06d}"
    path = f"gs://raw/{name}.parquet"
    placed = tuple(Group(place * GROUP_ROWS, rows, place) for place, rows in enumerate(groups))
    return FileSlice(name, path, ASSET_ROWS, 0, ASSET_ROWS - 1, placed)


def works_of(source: Timeseries, piece: FileSlice) -> list[Sized]:
    """What is to be written of an asset all of whose rows are fine."""
    asset = source.plan(piece.asset, [piece])
    assert isinstance(asset, SeriesAsset)
    assert asset.split is not None
    units = tuple(
        UnitFacts(unit.start, unit.start, {asset.split: Span(unit.start, unit.end, unit.rows)})
        for unit in source.units(asset)
    )
    no_classes = SeenClasses.zero(())
    return list(
        source.works(SeriesVerdict(asset, None, classes=no_classes, splits=frozenset({asset.split}), units=units))
    )


def split_of(rows: list[int]) -> tuple[SplitInfo, list[np.ndarray]]:
    """What the manifest says of shards of so many rows, and their blocks."""
    per_record = SEGMENT_BYTES // BYTES_OF_A_ROW
    shards, blocks = [], []
    for count in rows:
        records = -(-count // per_record)
        sizes = np.full(records, SEGMENT_BYTES + 100)
        blocks.append(cut_blocks(sizes, np.full(records, per_record), WINDOWS))
        _, windows, size = blocks[-1].sum(axis=0).tolist()
        shards.append(Shard(records=records, windows=windows, rows=records * per_record, bytes=size, crc32c="01234567"))
    return SplitInfo(assets=1, windows=1, records=1, bytes=1, shards=shards), blocks


def plan(assets: int) -> dict:
    """Plans a fleet and returns what came of it."""
    job = parse_job(JOB)
    schema = SeriesSchema(
        "t", pa.int64(), TimeUnits.of(pa.int64(), None), tuple(f"x{i}" for i in range(SENSORS)), None, None
    )
    source = Timeseries(PreprocessSpec.of(job, schema))
    began = time.perf_counter()
    works = [work for i in range(assets) for work in works_of(source, descriptor(i))]
    shards = list(plan_shards([(0, works)], "auto", job.split.seed))
    seconds = time.perf_counter() - began
    rows = [sum(work.unit.rows for work in shard.work) for shard in shards]
    split, blocks = split_of(rows[:SAMPLE])  # all of them are alike
    with tempfile.TemporaryDirectory() as folder:
        write_blocks(f"{folder}/blocks.parquet", index_table(blocks))
        index = Path(folder, "blocks.parquet").stat().st_size
    return {
        "assets": assets,
        "units": sum(len(shard.work) for shard in shards),
        "shards": len(shards),
        "largest_mb": max(rows) * BYTES_OF_A_ROW / 1e6,
        "manifest_mb": len(split.model_dump_json()) / len(split.shards) * len(rows) / 1e6,
        "index_mb": index / len(split.shards) * len(rows) / 1e6,
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(plan(args.child)))
        return
    header = (
        "assets",
        "Parquet, TB",
        "float32, TB",
        "units",
        "shards",
        "manifest, MB",
        "index of blocks, MB",
        "seconds to plan",
        "memory, MB",
    )
    print(f"| {' | '.join(header)} |")
    print(f"| --- |{' ---: |' * (len(header) - 1)}")
    alone = None
    with tempfile.TemporaryDirectory() as folder:
        for assets in FLEETS:
            log = Path(folder) / f"{assets}.txt"
            measured = measure([sys.executable, __file__, "--child", str(assets)], str(log))
            report = json.loads(log.read_text().splitlines()[-1])
            alone = measured.peak_rss_mb if alone is None else alone
            parquet = assets * ASSET_ROWS * PARQUET_MB_OF_A_MILLION_ROWS / 1e12
            raw = assets * ASSET_ROWS * BYTES_OF_A_ROW / 1e12
            print(
                f"| {assets:,} | {parquet:.3g} | {raw:.2g} | {report['units']:,} | {report['shards']:,} | "
                f"{report['manifest_mb']:,.1f} | {report['index_mb']:,.1f} | {report['seconds']:.2f} | "
                f"{measured.peak_rss_mb - alone:,.0f} |"
            )


if __name__ == "__main__":
    main()
