"""Steps of preprocessing as PTransforms, for a pipeline of one's own.

What `beamfeed preprocess` adds to them: statistics and scaling, splits, rejects,
shards of one size that are the same in every run, verification and a manifest.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import apache_beam as beam
import numpy as np
import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.config.duration import NANOSECONDS
from beamfeed.contract.config.prepare import Missing, Windows
from beamfeed.contract.config.sources.timeseries import AssetFrom
from beamfeed.contract.config.split import Split
from beamfeed.contract.errors import UserError
from beamfeed.transforms.records.example_encoder import encode_examples
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.time_units import TimeUnits
from beamfeed.transforms.sources.readers import TextOptions, read_schema, require_columns
from beamfeed.transforms.sources.timeseries.impute import impute, reach
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset
from beamfeed.transforms.sources.timeseries.read import Chunk, read_chunks, to_rows
from beamfeed.transforms.sources.timeseries.records import record_block, record_fields
from beamfeed.transforms.sources.timeseries.rows import Rows
from beamfeed.transforms.sources.timeseries.scan import scan_file
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema
from beamfeed.transforms.sources.timeseries.windowing import Windowing, cut_segments, find_windows, iter_blocks


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

    @property
    def time(self) -> np.ndarray:
        """int64 `[rows]`, in ticks: nanoseconds where the times have a unit, else as they are."""
        return self.rows.time

    def with_values(self, values: np.ndarray) -> "SeriesBlock":
        """The block with other values.

        Args:
          values: float32 `[rows, features]`: as many rows as before, of as many features as you like.
            NaN and infinity are missing, as they are when files are read.

        Raises:
          ValueError: if the number of rows is another one.
        """
        values = np.asarray(values, np.float32)
        if values.ndim != 2 or len(values) != len(self.rows) or not values.shape[1]:
            raise ValueError(f"values has the shape {list(values.shape)}, it must be [{len(self.rows)}, features]")
        values = np.where(np.isfinite(values), values, np.float32(np.nan))
        return SeriesBlock(self.asset, replace(self.rows, values=values), self.own)


class ReadTimeseries(beam.PTransform):
    """PCollection of paths -> PCollection of SeriesBlock, the rows of the files in blocks.

    A file holds one asset, which its name names, in order of time. Parquet and CSV, local or gs://

    Args:
      time: the column that orders the rows; its values must increase.
      features: names of numeric columns, which every file must have.
      windows: that will be cut from the blocks.
      missing: how missing values will be filled.
      time_unit: of a numeric time column: ns, us, ms, s, m, h or d.

    Raises:
      UserError: if an argument is wrong.
      BadInput: where a file breaks, lacks a column, or is out of order. The pipeline stops.

    Example:
      >>> import apache_beam as beam
      >>> windows = beamfeed.Windows(length=8, stride=4)
      >>> with beam.Pipeline("FnApiRunner") as pipeline:
      ...     _ = (
      ...         pipeline
      ...         | beam.Create(["fleet/pump-00.parquet"])
      ...         | beamfeed.ReadTimeseries(time="timestamp", features=["inlet_bar", "outlet_bar"], windows=windows)
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
        if isinstance(features, str) or not features:
            raise UserError(f"features is {features!r}, it must be a list of names of columns")
        if time_unit is not None and time_unit not in NANOSECONDS:
            raise UserError(f"time_unit is {time_unit!r}, it must be one of {', '.join(NANOSECONDS)}")
        self._time, self._time_unit, self._features = time, time_unit, tuple(features)
        self.windowing = _windowing(windows, missing, len(features))  # the sizes of blocks

    def expand(self, paths: beam.PCollection) -> beam.PCollection:
        return paths | beam.FlatMap(read_blocks, self._time, self._time_unit, self._features, self.windowing)


def read_blocks(
    path: str, time: str, time_unit: str | None, features: Sequence[str], windowing: Windowing
) -> Iterator[SeriesBlock]:
    """The blocks of one file, see `ReadTimeseries`."""
    text = TextOptions(needed=(time, *features), features=tuple(features))
    arrow_schema = read_schema(path, text)
    require_columns(path, [time, *features], arrow_schema.names)
    type_ = arrow_schema.field(time).type
    units = TimeUnits.of(type_, time_unit)
    if units is None:
        raise BadInput(path, f"column {time}", f"is {type_}, it must be timestamp, integer or float")
    booleans = frozenset(name for name in features if pa.types.is_boolean(arrow_schema.field(name).type))
    schema = SeriesSchema(time, type_, units, tuple(features), asset=None, split=None, booleans=booleans, text=text)
    schema.check(path, arrow_schema)
    (piece,) = scan_file(storage.stat(path), AssetFrom.model_validate({"from": "path"}), schema, None, scratch="")
    if not piece.rows:
        raise BadInput(path, "file", "holds no rows")
    asset = SeriesAsset(piece.asset, (piece,), "train", total=piece.rows, last=piece.last)
    rows = to_rows(_in_order(read_chunks(asset, schema)), asset, "train", Split(), max_gap=None)
    for block, own in iter_blocks(rows, windowing):
        yield SeriesBlock(asset.name, block, own)


def _in_order(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """The chunks as they are.

    Raises:
      BadInput: where the time does not increase.
    """
    last: int | None = None
    for chunk in chunks:
        step = np.diff(chunk.time, prepend=chunk.time[0] - 1 if last is None else last)
        if (step <= 0).any():
            raise BadInput(chunk.path, f"row {chunk.file_row[(step <= 0).argmax()]}", "the time does not increase")
        last = int(chunk.time[-1])
        yield chunk


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
      ...         | beamfeed.ReadTimeseries(time="timestamp", features=["inlet_bar", "outlet_bar"], windows=windows)
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
    segments = cut_segments(find_windows(block.rows, valid, windowing, block.own), windowing)
    fields = record_fields([str(feature) for feature in range(values.shape[1])])
    yield from encode_examples(record_block(block.asset, block.rows, values, segments), fields, windows)


def _windowing(windows: Windows, missing: Missing, features: int) -> Windowing:
    return Windowing.of(windows, features, single=False, fill_rows=reach(missing), linear=missing.fill == "linear")
