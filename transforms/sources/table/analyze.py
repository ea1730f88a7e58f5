"""The graph of a table with functions of the user's own, whose analyzers look at rows; workers apply it as it is."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from google.protobuf import text_format
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import op_def_registry
from tensorflow_transform.tf_metadata import schema_utils
from tensorflow_transform.tf_metadata.dataset_metadata import DatasetMetadata
from tfx_bsl.tfxio import tensor_adapter, tensor_representation_util

from beamfeed.contract import storage
from beamfeed.contract.config.features import Own
from beamfeed.contract.dataset.transform_graph import find_fault
from beamfeed.contract.errors import UserError
from beamfeed.transforms.sources.loaded import Graph, load_saved
from beamfeed.transforms.sources.table.encode import encode
from beamfeed.transforms.sources.table.graph import Tensors, input_types
from beamfeed.transforms.sources.table.learned import learned_of
from beamfeed.transforms.sources.table.raw_rows import ValuesOfRows
from beamfeed.transforms.sources.table.schema import TableSchema
from beamfeed.transforms.sources.table.staged import Run, read_runs
from beamfeed.transforms.sources.table.statistics import TableStatistics
from beamfeed.transforms.statistics.graph import Columns, Marks
from beamfeed.transforms.statistics.marks import SAVED_MODEL, fill

_NOTES = ".tft_metadata"  # the analyzer's own notes beside the graph: no reader of a finished graph wants them
_ARROW = {tf.float32: pa.float32(), tf.int64: pa.int64(), tf.string: pa.binary()}


def analyze_own(
    verdicts: beam.PCollection, schema: TableSchema, statistics: beam.PCollection, scratch: str
) -> beam.PCollection:
    """PCollection of TableVerdict -> PCollection of one path, of a folder that `tft.TFTransformOutput` reads.

    Functions of the user's own look at the rows; `statistics` is a PCollection of one TableStatistics.
    """
    types, marks = input_types(schema), Marks(storage.join(scratch, "marks"))
    rows = (
        verdicts
        | "StagedUnits" >> beam.FlatMap(lambda verdict: verdict.staged if verdict.accepted else ())
        | "SpreadStaged" >> beam.Reshuffle()
        | "RowsForAnalyzers"
        >> beam.FlatMap(lambda staged, names: rows_for_analyzers(staged.path, staged.runs, names), list(types))
    )

    def transform(columns: Columns) -> Columns:
        return encode(columns, schema, Tensors(marks))

    with tft_beam.Context(temp_dir=storage.join(scratch, "tft")):
        saved_model, metadata = (rows, _description(types)) | tft_beam.AnalyzeDataset(transform)
    return saved_model | "FillGraph" >> beam.Map(
        fill_analyzed,
        beam.pvalue.AsSingleton(metadata.deferred_metadata),
        beam.pvalue.AsSingleton(statistics),
        schema,
        storage.join(scratch, "own_graph"),
    )


def fill_analyzed(
    saved_model: str, metadata: DatasetMetadata, statistics: TableStatistics, schema: TableSchema, folder: str
) -> str:
    """Fills a graph whose analyzers have looked at the rows, and writes the schema of what it gives.

    Done twice, it comes to the same. (tensorflow-transform's own WriteTransformFn moves what it wrote, and fails when a
    bundle is tried again.)

    Raises:
      UserError: if the graph would not be loaded: a function of the user's own does more than compute.
    """
    model = saved_model_pb2.SavedModel.FromString(storage.read_bytes(saved_model.rstrip("/") + SAVED_MODEL))
    fault = find_fault(model, op_def_registry.get)
    if fault is not None:  # in what a function keeps, such as a table or a model; `own_fields` has seen the rest
        names = ", ".join(f"{each.name}.function" for each in schema.features if isinstance(each.section, Own))
        raise UserError(f"features: the transform graph with {names} {fault}; it may only compute")
    storage.remove_tree(storage.join(saved_model, _NOTES))
    graph = storage.join(folder, tft.TFTransformOutput.TRANSFORM_FN_DIR)
    fill(saved_model, graph, learned_of(schema, statistics).of_graph())
    schema_file = storage.join(folder, tft.TFTransformOutput.TRANSFORMED_METADATA_DIR, "schema.pbtxt")
    storage.write_text(schema_file, text_format.MessageToString(metadata.schema))
    return folder


def rows_for_analyzers(path: str, runs: Sequence[Run], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Staged training rows as tensorflow-transform's analyzers take them: packed, a list of one value each."""
    for rows in read_runs(path, [run for run in runs if run.split == "train"]):
        offsets = pa.array(np.arange(rows.num_rows + 1, dtype=np.int32))
        columns = [pa.ListArray.from_arrays(offsets, _plain(rows.column(name))) for name in names]
        yield pa.RecordBatch.from_arrays(columns, names=list(names))


def _plain(column: pa.Array) -> Any:
    return column.fill_null("").cast(pa.binary()) if pa.types.is_string(column.type) else column


def _description(types: dict[str, tf.DType]) -> tensor_adapter.TensorAdapterConfig:
    """What the graph takes, of rows of Arrow."""
    spec = {name: tf.io.FixedLenFeature((), type_) for name, type_ in types.items()}
    rows = pa.schema([(name, pa.list_(_ARROW[type_])) for name, type_ in types.items()])
    representations = tensor_representation_util.InferTensorRepresentationsFromSchema(
        schema_utils.schema_from_feature_spec(spec)
    )
    return tensor_adapter.TensorAdapterConfig(rows, representations)


@lru_cache(maxsize=2)
def load_transformer(folder: str) -> ValuesOfRows:
    """Loads the transform graph of a folder, once a process: it gives the fields of some rows by name."""
    return Graph(load_saved(storage.join(folder, tft.TFTransformOutput.TRANSFORM_FN_DIR)))
