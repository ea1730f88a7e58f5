"""Steps of preprocessing as PTransforms, for a pipeline of one's own.

What `beamfeed preprocess` adds to them: statistics and scaling, splits, rejects,
shards of one size that are the same in every run, verification and a manifest.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import apache_beam as beam
import numpy as np

from beamfeed.contract.config.prepare import Missing, Windows
from beamfeed.contract.config.source import AssetFrom, TimeColumn, TimeseriesSource
from beamfeed.contract.config.split import Split
from beamfeed.transforms.records.example_encoder import encode_examples
from beamfeed.transforms.sources.readers import read_schema
from beamfeed.transforms.sources.timeseries.impute import impute, reach
from beamfeed.transforms.sources.timeseries.plan import Asset
from beamfeed.transforms.sources.timeseries.read import read_chunks, to_rows
from beamfeed.transforms.sources.timeseries.rows import Rows
from beamfeed.transforms.sources.timeseries.scan import scan_file
from beamfeed.transforms.sources.timeseries.schema import schema_of
from beamfeed.transforms.sources.timeseries.windowing import Windowing, find_segments, iter_blocks


@dataclass(frozen=True)
class SeriesBlock:
    """Some megabytes of rows of one asset that follow each other.

    Attributes:
      asset: its name.
      rows: with the rows around the block that its windows and filling need.
      own: the positions [own[0], own[1]) at which the windows of this block start.
    """

    asset: str
    rows: Rows
    own: tuple[int, int]

    @property
    def values(self) -> np.ndarray:
        """float32 `[rows, features]`; NaN is missing."""
        return self.rows.values

    def with_values(self, values: np.ndarray) -> "SeriesBlock":
        """The block with other values, float32 `[rows, features]`, of as many features as you like."""
        rows = Rows(self.rows.position, self.rows.time, np.asarray(values, np.float32), self.rows.gap)
        return SeriesBlock(self.asset, rows, self.own)


class ReadTimeseries(beam.PTransform):
    """PCollection of paths -> PCollection of SeriesBlock, the rows of the files in blocks.

    A file holds one asset, which its name names. Parquet and CSV, local or gs://

    Args:
      time: the column that orders the rows.
      features: names and globs of numeric columns.
      windows: that will be cut from the blocks.
      missing: how missing values will be filled.
      time_unit: of a numeric time column: ns, us, ms, s, m, h or d.

    Raises:
      BadInput: where a file breaks, or lacks a column. The pipeline stops.

    Example:
      >>> import apache_beam as beam
      >>> windows = beamfeed.Windows(length=8, stride=4)
      >>> with beam.Pipeline("FnApiRunner") as pipeline:
      ...     _ = (
      ...         pipeline
      ...         | beam.Create(["fleet/pump-00.parquet"])
      ...         | beamfeed.ReadTimeseries(time="timestamp", features=["*_bar"], windows=windows)
      ...         | beam.Map(lambda block: print(block.asset, block.values.shape))
      ...     )
      pump-00 (200, 2)
    """

    def __init__(
        self,
        time: str,
        features: Sequence[str],
        windows: Windows,
        missing: Missing = Missing(),
        time_unit: str | None = None,
    ):
        super().__init__()
        column = TimeColumn.model_validate({"column": time, "unit": time_unit})
        self._source = TimeseriesSource(kind="timeseries", files="", time=column, features=list(features))
        self._windows, self._missing = windows, missing

    def expand(self, paths: beam.PCollection) -> beam.PCollection:
        return paths | beam.FlatMap(read_blocks, self._source, self._windows, self._missing)


def read_blocks(path: str, source: TimeseriesSource, windows: Windows, missing: Missing) -> Iterator[SeriesBlock]:
    """The blocks of one file, see `ReadTimeseries`."""
    found = read_schema(path)
    schema = schema_of(dict(zip(found.names, found.types, strict=True)), source)
    (part,) = scan_file(path, AssetFrom.model_validate({"from": "path"}), schema, None)
    asset = Asset(part.asset, (part,), "train")
    rows = to_rows(read_chunks(asset, schema), asset, "train", Split(), max_gap=None)
    for block, own in iter_blocks(rows, _windowing(windows, missing, len(schema.features)), start=None):
        yield SeriesBlock(asset.name, block, own)


class EncodeWindows(beam.PTransform):
    """PCollection of SeriesBlock -> PCollection of bytes: serialized `tf.train.Example`, for Beam's WriteToTFRecord.

    Missing values are filled, and the rows cut into runs that hold whole windows.

    Args:
      windows: as given to `ReadTimeseries`.
      missing: as given to `ReadTimeseries`; its constant is in the units of the values.

    Example:
      >>> import apache_beam as beam
      >>> windows = beamfeed.Windows(length=8, stride=4)
      >>> with beam.Pipeline("FnApiRunner") as pipeline:
      ...     _ = (
      ...         pipeline
      ...         | beam.Create(["fleet/pump-00.parquet"])
      ...         | beamfeed.ReadTimeseries(time="timestamp", features=["*_bar"], windows=windows)
      ...         | beam.Map(lambda block: block.with_values(block.values / 10))
      ...         | beamfeed.EncodeWindows(windows)
      ...         | beam.combiners.Count.Globally()
      ...         | beam.Map(print)
      ...     )
      1
    """

    def __init__(self, windows: Windows, missing: Missing = Missing()):
        super().__init__()
        self._windows, self._missing = windows, missing

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        return blocks | beam.FlatMap(encode_block, self._windows, self._missing)


def encode_block(block: SeriesBlock, windows: Windows, missing: Missing) -> Iterator[bytes]:
    """The records of one block, see `EncodeWindows`."""
    values, valid = impute(block.rows, missing)
    windowing = _windowing(windows, missing, values.shape[1])
    yield from encode_examples(block.asset, block.rows, values, find_segments(block.rows, valid, windowing, block.own))


def _windowing(windows: Windows, missing: Missing, features: int) -> Windowing:
    return Windowing.of(windows, features, single=False, fill_rows=reach(missing), linear=missing.fill == "linear")
