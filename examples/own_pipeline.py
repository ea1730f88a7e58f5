"""Beamfeed's steps in a pipeline of your own, down to Beam's own writer.

Reads series, adds a feature, cuts windows and writes them with
`beam.io.WriteToTFRecord`:

    python examples/own_pipeline.py --files 'out/fleet/*.parquet' --time timestamp \\
        --feature vibration_mm_s --out out/own/part

What `beamfeed preprocess` adds to this: statistics and scaling, splits, rejects,
shards of one size that are the same in every run, verification and a manifest.
"""

import argparse

import apache_beam as beam
import numpy as np
from apache_beam.io.fileio import MatchFiles
from apache_beam.options.pipeline_options import PipelineOptions

import beamfeed

WINDOWS = beamfeed.Windows(length=64, stride=16)
MISSING = beamfeed.Missing(fill="forward", limit=5)


def add_change(block: beamfeed.SeriesBlock) -> beamfeed.SeriesBlock:
    """A step of one's own: puts the change from row to row beside the feature."""
    change = np.diff(block.values, axis=0, prepend=block.values[:1])
    return block.with_values(np.hstack([block.values, change]))


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
            | beamfeed.ReadTimeseries(args.time, [args.feature], WINDOWS, MISSING)
            | beam.Map(add_change)
            | beamfeed.EncodeWindows(WINDOWS, MISSING)
            | beam.io.WriteToTFRecord(args.out, file_name_suffix=".tfrecord", num_shards=0)
        )


if __name__ == "__main__":
    main()
