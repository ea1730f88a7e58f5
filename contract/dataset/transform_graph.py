"""The transform graph of a dataset, which somebody else may have written: what it must not hold."""

import posixpath
import re
from collections.abc import Callable
from typing import Any

from beamfeed.contract.errors import UserError

# Operations that reach beyond the tensors they are given: to files, other machines, Python, the process. TensorFlow
# marks them as stateful, with those that have a state in memory; of the others it is in their names. So one of a later
# version, whose name nobody knew here, is refused, too.
_REACHING = re.compile(
    "Abort|Copy|CustomCall|Dataset|Debug|File|Host|ImmutableConst|Mlir|Proto|PyFunc|Reader|Rpc|TPU|VocabRemapping"
)
_IN_MEMORY = re.compile(  # stateful
    r"Assert|(Assert|Check)Numerics(V2)?|Case|If|While"
    r"|Var\w+|\w*Variable(V2|Op|Shape)?|Resource\w+|DestroyResourceOp|Empty|GuaranteeConst"
    r"|(Anonymous)?(Mutable)?(Dense)?HashTable\w*|LookupTable\w+|InitializeTableV2"
    r"|Random\w+|Rng\w+|Stateful\w+|StatelessRandomGetAlg|NonDeterministicInts|Multinomial|(Parameterized)?TruncatedNormal"
    r"|SampleDistortedBoundingBox(V2)?|(LogUniform|Uniform|All|LearnedUnigram)CandidateSampler"
    r"|TensorArray\w*|Stack\w*|Timestamp|Print"
)
_OF_SAVERS = {"MergeV2Checkpoints", "RestoreV2", "SaveV2", "ShardedFilename"}
_SAVER = re.compile(r"__inference__traced_(save|restore)_\d+")  # a function that TensorFlow writes into each SavedModel
_TABLE_OF_FILE = "InitializeTableFromTextFileV2"


def check_graph(path: str, model: Any, operation: Callable[[str], Any]) -> None:
    """To be called before a transform graph is loaded.

    Args:
      path: of its file.
      model: the message of TensorFlow's SavedModel that the file holds.
      operation: an operation of TensorFlow by its name, its message OpDef; None of others, such as functions.

    Raises:
      UserError: if it would do more than compute: read or write files but its vocabularies, or call Python.
    """
    parts = model.meta_graphs
    # Of any other, TensorFlow runs what stands in the graph beside the functions.
    modern = len(parts) == 1 and parts[0].HasField("object_graph_def")
    for part in parts:
        for asset in part.asset_file_def:
            if posixpath.basename(asset.filename) != asset.filename or asset.filename in ("", ".", ".."):
                raise _refused(path, f"names the file {asset.filename!r}, which is none of its own")
        functions = [(function, function.node_def) for function in part.graph_def.library.function]
        for function, nodes in [(None, part.graph_def.node), *functions]:
            for node in nodes:
                if _reaches(node.op, operation) and not (
                    modern and function is not None and _is_own_file(part, function, node)
                ):
                    raise _refused(path, f"holds the operation {node.op}, which reaches beyond its values")


def _refused(path: str, fault: str) -> UserError:
    return UserError(
        f"{path}: the dataset's transform graph {fault}; it was not written by preprocessing, do not use this dataset"
    )


def _reaches(name: str, operation: Callable[[str], Any]) -> bool:
    found = operation(name)
    if found is None:  # a function of the graph, which is looked at; nothing else could be loaded
        return False
    return _REACHING.search(name) is not None or (found.is_stateful and _IN_MEMORY.fullmatch(name) is None)


def _is_own_file(part: Any, function: Any, node: Any) -> bool:
    """Whether a node of a function reads or writes only what a SavedModel does: its checkpoint, or a vocabulary."""
    name = function.signature.name
    if node.op in _OF_SAVERS:  # called by nobody once the graph is loaded
        return (
            _SAVER.fullmatch(name) is not None
            and not _is_called(part, name)
            and name not in part.object_graph_def.concrete_functions
        )
    if node.op != _TABLE_OF_FILE or _is_called(part, name):
        return False
    # The name of the file is an argument that the loader gives: that of an asset, which lies in the graph's folder.
    graph = part.object_graph_def
    arguments = [argument.name for argument in function.signature.input_arg]
    bound = graph.concrete_functions[name].bound_inputs if name in graph.concrete_functions else ()
    given = dict(zip(arguments[-len(bound) :], bound, strict=False))
    place = given.get("".join(node.input[1:2]), -1)
    return 0 <= place < len(graph.nodes) and bool(graph.nodes[place].WhichOneof("kind") == "asset")


def _is_called(part: Any, name: str) -> bool:
    """Whether another function, or a gradient, has the name of a function in it."""
    library = part.graph_def.library
    others = (each for each in library.function if each.signature.name != name)
    return any(name.encode() in each.SerializeToString() for each in (*others, *library.gradient))
