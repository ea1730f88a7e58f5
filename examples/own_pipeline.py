"""Beamfeed's steps in a pipeline of your own, down to Beam's own writer.

Reads series, adds a feature, cuts segments and writes them with
`beam.io.WriteToTFRecord`:

    python examples/own_pipeline.py --files 'out/fleet/*.parquet' --time timestamp \\
        --feature vibration_mm_s --out out/own/part

What `beamfeed preprocess` adds to this: statistics and scaling, splits, rejects,
shards of one size that are the same in every run, verification and a manifest.
"""

import argparse
from collections.abc import Iterator

import apache_beam as beam
import numpy as np
from apache_beam.io.fileio import MatchFiles
from apache_beam.options.pipeline_options import PipelineOptions

from beamfeed.contract.config.prepare import Missing, Windows
from beamfeed.contract.config.source import AssetFrom
from beamfeed.contract.config.split import Split
from beamfeed.transforms.records.example_encoder import encode_examples
from beamfeed.transforms.sources.readers import read_schema
from beamfeed.transforms.sources.timeseries.impute import impute, reach
from beamfeed.transforms.sources.timeseries.plan import Asset
from beamfeed.transforms.sources.timeseries.read import read_chunks, to_rows
from beamfeed.transforms.sources.timeseries.rows import Rows
from beamfeed.transforms.sources.timeseries.scan import scan_file
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema
from beamfeed.transforms.sources.timeseries.time_units import TimeUnits
from beamfeed.transforms.sources.timeseries.windowing import Windowing, find_segments, iter_blocks

MISSING = Missing(fill="forward", limit=5)
WINDOWS = Windows(length=64, stride=16)


class ReadSeries(beam.DoFn):
    """path -> (asset, Rows, positions that the rows own), a block at a time."""

    def __init__(self, time: str, feature: str):
        self._time, self._feature = time, feature

    def process(self, path: str) -> Iterator[tuple[str, Rows, tuple[int, int]]]:
        type_ = read_schema(path).field(self._time).type
        units = TimeUnits.of(type_, unit=None)
        if units is None:
            raise ValueError(f"{path}: column {self._time} is {type_}, which is no time")
        columns = SeriesSchema(self._time, type_, units, (self._feature,), asset=None, split=None)
        (part,) = scan_file(path, AssetFrom(**{"from": "path"}), columns, None)
        asset = Asset(part.asset, (part,), "train")
        rows = to_rows(read_chunks(asset, columns), asset, "train", Split(), max_gap=None)
        for block, own in iter_blocks(rows, windowing(), start=None):
            yield asset.name, block, own


class AddChange(beam.DoFn):
    """A preprocessing step of one's own: puts the change from row to row beside the feature."""

    def process(self, element: tuple[str, Rows, tuple[int, int]]) -> Iterator[tuple[str, Rows, tuple[int, int]]]:
        asset, rows, own = element
        change = np.diff(rows.values, axis=0, prepend=rows.values[:1])
        yield asset, Rows(rows.position, rows.time, np.hstack([rows.values, change]), rows.gap), own


class Segment(beam.DoFn):
    """Fills, cuts and encodes a block -> serialized tf.train.Example."""

    def process(self, element: tuple[str, Rows, tuple[int, int]]) -> Iterator[bytes]:
        asset, rows, own = element
        values, valid = impute(rows, MISSING)
        yield from encode_examples(asset, rows, values, find_segments(rows, valid, windowing(), own))


def windowing() -> Windowing:
    return Windowing.of(WINDOWS, features=2, single=False, fill_rows=reach(MISSING))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", required=True, help="a glob of Parquet or CSV files, one asset each")
    parser.add_argument("--time", required=True, help="the column of times")
    parser.add_argument("--feature", required=True, help="a column of numbers")
    parser.add_argument("--out", required=True, help="the prefix of the files to write")
    args, beam_options = parser.parse_known_args(argv)
    options = PipelineOptions(beam_options, runner="FnApiRunner")
    with beam.Pipeline(options=options) as pipeline:
        _ = (
            pipeline
            | MatchFiles(args.files)
            | "Path" >> beam.Map(lambda metadata: metadata.path)
            | beam.Reshuffle()
            | beam.ParDo(ReadSeries(args.time, args.feature))
            | beam.ParDo(AddChange())
            | beam.ParDo(Segment())
            | beam.io.WriteToTFRecord(args.out, file_name_suffix=".tfrecord", num_shards=0)
        )


if __name__ == "__main__":
    main()
