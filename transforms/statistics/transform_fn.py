"""Writes the transform graph where `tft.TFTransformOutput` reads it.

tensorflow-transform's own WriteTransformFn moves what it wrote, so that a bundle
that is tried again finds nothing to move and fails for good. This one copies.
"""

import apache_beam as beam
import tensorflow_transform as tft
from google.protobuf import text_format
from tensorflow_transform.tf_metadata.dataset_metadata import DatasetMetadata

from beamfeed.contract import storage
from beamfeed.transforms.statistics.scale_file import CHUNK, read_chunks

_NOTES = ".tft_metadata"  # the analyzer's own notes beside the graph: no reader of a finished graph wants them


def write_transform_fn(folder: str, saved_model: str, metadata: DatasetMetadata) -> str:
    """Copies a SavedModel into `folder` and writes the schema of what it gives; returns the SavedModel's new path.

    Done twice, it comes to the same.
    """
    to = storage.join(folder, tft.TFTransformOutput.TRANSFORM_FN_DIR)
    for stat in storage.match(saved_model, ("",)):
        name = stat.path.removeprefix(saved_model.rstrip("/"))
        if not name.startswith(f"/{_NOTES}/"):
            # The file of each asset's scaling may be large; what is not takes one request.
            is_small = stat.size <= CHUNK
            storage.write_chunks(to + name, [storage.read_bytes(stat.path)] if is_small else read_chunks(stat.path))
    schema = storage.join(folder, tft.TFTransformOutput.TRANSFORMED_METADATA_DIR, "schema.pbtxt")
    storage.write_text(schema, text_format.MessageToString(metadata.schema))
    return to


class WriteTransformFn(beam.PTransform):
    """tensorflow-transform's (saved model folder, metadata) -> PCollection of one path, the written SavedModel."""

    def __init__(self, folder: str):
        super().__init__()
        self._folder = folder

    def _extract_input_pvalues(self, transform_fn: tuple) -> tuple:
        saved_model, metadata = transform_fn
        return transform_fn, [saved_model, metadata.deferred_metadata]

    def expand(self, transform_fn: tuple) -> beam.PCollection:
        saved_model, metadata = transform_fn
        return saved_model | "CopyGraph" >> beam.Map(
            lambda path, schema, folder: write_transform_fn(folder, path, schema),
            beam.pvalue.AsSingleton(metadata.deferred_metadata),
            self._folder,
        )
