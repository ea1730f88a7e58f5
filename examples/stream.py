"""Scores files of series as they arrive, and prints each window that is unusual, as JSON.

    python examples/stream.py --model out/fleet/model/saved_model --files 'new/*.parquet' --time timestamp --over 0.05

A file is of one machine, which its name names up to the last dash: pump-7-20240301.parquet goes on where
pump-7-20240229.parquet ended. Runs until it is stopped; options of Beam may follow.
"""

import argparse
import json
import os
from collections.abc import Iterator

import apache_beam as beam
import numpy as np
import pyarrow.parquet as pq
from apache_beam.coders import BooleanCoder
from apache_beam.io import fileio
from apache_beam.io.filesystem import FileMetadata
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

import beamfeed


def read_rows(
    found: fileio.ReadableFile, time: str, features: list[str]
) -> Iterator[tuple[str, tuple[np.ndarray, np.ndarray]]]:
    """The rows of a file: the asset, their times, and float32 `[rows, features]`."""
    asset = os.path.basename(found.metadata.path).rsplit("-", 1)[0]
    with found.open() as file:
        for batch in pq.ParquetFile(file).iter_batches(columns=[time, *features]):
            times = batch.column(time).to_numpy(zero_copy_only=False).astype("datetime64[us]")
            values = np.stack([batch.column(name).to_numpy(zero_copy_only=False) for name in features], axis=1)
            yield asset, (times, values)


class FirstTime(beam.DoFn):
    """(path, file), as often as it is found -> the file, once."""

    SEEN = ReadModifyWriteStateSpec("seen", BooleanCoder())

    def process(self, named, seen=beam.DoFn.StateParam(SEEN)):
        if not seen.read():
            seen.write(True)
            yield named[1]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="the folder of the SavedModel")
    parser.add_argument("--files", required=True, help="a glob")
    parser.add_argument("--time", required=True, help="the column of times")
    parser.add_argument("--over", type=float, default=0.0, help="print windows whose score is higher")
    parser.add_argument("--every", type=float, default=10, help="look for files after so many seconds")
    parser.add_argument("--for", type=float, dest="seconds", help="end after so many seconds")
    args, rest = parser.parse_known_args(argv)
    options = PipelineOptions(rest)
    options.view_as(StandardOptions).streaming = True
    until = {} if args.seconds is None else {"stop_timestamp": beam.utils.timestamp.Timestamp.now() + args.seconds}
    predict = beamfeed.PredictStream(args.model)
    with beam.Pipeline(options=options) as pipeline:
        _ = (
            pipeline
            # Its own way to give each file once does not wait between looks on a runner on this machine.
            | fileio.MatchContinuously(args.files, interval=args.every, has_deduplication=False, **until)
            | beam.WithKeys(lambda found: found.path).with_output_types(tuple[str, FileMetadata])
            | beam.ParDo(FirstTime())
            | fileio.ReadMatches()
            | beam.FlatMap(read_rows, args.time, predict.features)
            | predict
            | beam.Filter(lambda answer: answer["score"] > args.over)
            | beam.Map(
                lambda answer: json.dumps({name: str(answer[name]) for name in ("asset", "time", "until", "score")})
            )
            | beam.Map(print)
        )


if __name__ == "__main__":
    main()
