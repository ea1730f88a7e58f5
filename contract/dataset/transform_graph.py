"""The transform graph of a dataset, which somebody else may have written: what it must not hold."""

from typing import Any

from beamfeed.contract.errors import UserError

# Operations that reach beyond the tensors they are given: to files, other machines, Python. Preprocessing writes none:
# vocabularies are assets, which TensorFlow's tables read.
REACHING = {
    "CacheDataset", "CacheDatasetV2", "CreateSummaryDbWriter", "CreateSummaryFileWriter", "DataServiceDataset",
    "DataServiceDatasetV2", "DebugIdentity", "DebugIdentityV2", "DebugIdentityV3", "EagerPyFunc",
    "FixedLengthRecordDataset", "FixedLengthRecordDatasetV2", "FixedLengthRecordReader",
    "FixedLengthRecordReaderV2", "LoadDataset", "MatchingFiles", "PrintV2", "PyFunc", "PyFuncStateless", "ReadFile",
    "RpcCall", "RpcServer", "Save", "SaveDataset", "SaveDatasetV2", "SaveSlices", "SnapshotDataset",
    "SnapshotDatasetV2", "TFRecordDataset", "TFRecordDatasetV2", "TFRecordReader", "TFRecordReaderV2",
    "TextLineDataset", "TextLineReader", "TextLineReaderV2", "WholeFileReader", "WholeFileReaderV2", "WriteFile",
}  # fmt: skip


def check_graph(path: str, model: Any) -> None:
    """To be called before a transform graph is loaded.

    Args:
      path: of its file.
      model: the message of TensorFlow's SavedModel that the file holds.

    Raises:
      UserError: if it would do more than compute: read or write files, or call Python.
    """
    graphs = [part.graph_def for part in model.meta_graphs]
    names = {node.op for graph in graphs for node in graph.node}
    names |= {node.op for graph in graphs for function in graph.library.function for node in function.node_def}
    if reaching := sorted(names & REACHING):
        raise UserError(
            f"{path}: the dataset's transform graph holds the operation {reaching[0]}, which reaches beyond its "
            "values; it was not written by preprocessing, do not use this dataset"
        )
