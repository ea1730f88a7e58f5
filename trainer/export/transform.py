"""Loads the transform graph of a dataset, which somebody else may have written."""

import os
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from beamfeed.contract.errors import UserError

# Operations that reach beyond the tensors they are given: to files, other machines, Python. Preprocessing writes none:
# vocabularies are assets, which TensorFlow's tables read.
REACHING = {
    "CacheDataset", "CacheDatasetV2", "CreateSummaryDbWriter", "CreateSummaryFileWriter", "DataServiceDataset",
    "DataServiceDatasetV2", "EagerPyFunc", "FixedLengthRecordDataset", "FixedLengthRecordDatasetV2",
    "FixedLengthRecordReader", "FixedLengthRecordReaderV2", "LoadDataset", "MatchingFiles", "PyFunc",
    "PyFuncStateless", "ReadFile", "RpcCall", "RpcServer", "SaveDataset", "SaveDatasetV2", "SnapshotDataset",
    "SnapshotDatasetV2", "TFRecordDataset", "TFRecordDatasetV2", "TFRecordReader", "TFRecordReaderV2",
    "TextLineDataset", "TextLineReader", "TextLineReaderV2", "WholeFileReader", "WholeFileReaderV2", "WriteFile",
}  # fmt: skip


def load_transform(folder: str) -> Any:
    """The transform graph in a folder, as `tf.saved_model.load` gives it.

    Raises:
      UserError: if it would do more than compute: read or write files, or call Python.
    """
    path = os.path.join(folder, "saved_model.pb")
    saved = saved_model_pb2.SavedModel()
    with tf.io.gfile.GFile(path, "rb") as file:
        saved.ParseFromString(file.read())
    graphs = [meta.graph_def for meta in saved.meta_graphs]
    names = {node.op for graph in graphs for node in graph.node}
    names |= {node.op for graph in graphs for function in graph.library.function for node in function.node_def}
    if reaching := sorted(names & REACHING):
        raise UserError(
            f"{path}: the dataset's transform graph holds the operation {reaching[0]}, which reaches beyond its "
            "values; it was not written by preprocessing, do not use this dataset"
        )
    return tf.saved_model.load(folder)
