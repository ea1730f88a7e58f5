"""The transform graph of a dataset, which somebody else may have written: what it must not hold."""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from beamfeed.contract.errors import UserError

# Operations that reach beyond the tensors they are given: to files, other machines, Python, the process. TensorFlow
# marks them as stateful, with those that have a state in memory; of the others it is in their names. So one of a later
# version, whose name nobody knew here, is refused, too.
_REACHING = re.compile(
    "Abort|(?<!Disable)Copy|CustomCall|Dataset|Debug|File|Host|ImmutableConst|Mlir|Proto|PyFunc|Reader|Rpc|TPU|VocabRemapping"
)
_IN_MEMORY = re.compile(  # stateful
    r"Assert|(Assert|Check)Numerics(V2)?|Case|If|While"
    r"|Var\w+|\w*Variable(V2|Op|Shape)?|Resource\w+|DestroyResourceOp|Empty|GuaranteeConst"
    r"|(Anonymous)?(Mutable)?(Dense)?HashTable\w*|LookupTable\w+|InitializeTableV2"
    r"|Random\w+|Rng\w+|Stateful\w+|StatelessRandomGetAlg|NonDeterministicInts|Multinomial|(Parameterized)?TruncatedNormal"
    r"|SampleDistortedBoundingBox(V2)?|(LogUniform|Uniform|All|LearnedUnigram)CandidateSampler"
    r"|TensorArray\w*|Stack\w*|Timestamp|Print|DisableCopyOnRead"
)
_OF_SAVERS = {"MergeV2Checkpoints", "RestoreV2", "SaveV2", "ShardedFilename"}
_SAVER = re.compile(r"__inference__traced_(save|restore)_\d+")  # a function that TensorFlow writes into each SavedModel
_TABLE_OF_FILE = "InitializeTableFromTextFileV2"
_CALLS = {"PartitionedCall", "StatefulPartitionedCall"}  # what they are given, their function is given in this order
_OF_MESSAGES = {"DecodeProtoV2", "EncodeProto"}
_Calls = Mapping[str, list[tuple[Any, Any]]]  # by the name of a function: functions that name it, and the node there


def check_graph(path: str, model: Any, operation: Callable[[str], Any]) -> None:
    """To be called before a transform graph is loaded.

    Args:
      path: of its file.
      model: the message of TensorFlow's SavedModel that the file holds.
      operation: an operation of TensorFlow by its name, its message OpDef; None of others, such as functions.

    Raises:
      UserError: if it would do more than compute: read or write files but its vocabularies, or call Python.
    """
    fault = find_fault(model, operation)
    if fault is not None:
        raise UserError(
            f"{path}: the dataset's transform graph {fault}; "
            "it was not written by preprocessing, do not use this dataset"
        )


def find_fault(model: Any, operation: Callable[[str], Any]) -> str | None:
    """Why a transform graph would not be loaded, as words that follow its name. For arguments see `check_graph`."""
    parts = model.meta_graphs
    # Of any other, TensorFlow runs what stands in the graph beside the functions.
    modern = len(parts) == 1 and parts[0].HasField("object_graph_def")
    for part in parts:
        for asset in part.asset_file_def:
            if posixpath.basename(asset.filename) != asset.filename or asset.filename in ("", ".", ".."):
                return f"names the file {asset.filename!r}, which is none of its own"
        calls = _calls(part.graph_def.library) if modern else {}
        for function, node in _nodes(part.graph_def):
            if _reaches(node, operation) and not (
                modern and function is not None and _is_own_file(part, calls, function, node)
            ):
                return f"holds the operation {node.op}, which reaches beyond its values"
    return None


def find_reaching(graph: Any, operation: Callable[[str], Any]) -> str | None:
    """An operation for which a transform graph would not be loaded, of one that is being traced.

    Tables of files are not looked at: whose files they are is known when the graph is saved.

    Args:
      graph: the message GraphDef.
      operation: see `check_graph`.
    """
    reaching = (node.op for _, node in _nodes(graph) if node.op != _TABLE_OF_FILE and _reaches(node, operation))
    return next(reaching, None)


def _nodes(graph: Any) -> Iterator[tuple[Any, Any]]:
    """The nodes of a graph, with their functions; None for those beside the functions."""
    yield from ((None, node) for node in graph.node)
    yield from ((function, node) for function in graph.library.function for node in function.node_def)


def _reaches(node: Any, operation: Callable[[str], Any]) -> bool:
    definition = operation(node.op)
    if definition is None:  # a function of the graph, which is looked at; nothing else could be loaded
        return False
    if node.op in _OF_MESSAGES:  # by a description that TensorFlow or the node has, and not a file
        source = node.attr.get("descriptor_source")
        return source is not None and not (source.s == b"local://" or source.s.startswith(b"bytes://"))
    return _REACHING.search(node.op) is not None or (definition.is_stateful and _IN_MEMORY.fullmatch(node.op) is None)


def _is_own_file(part: Any, calls: _Calls, function: Any, node: Any) -> bool:
    """Whether a node of a function reads or writes only what a SavedModel does: its checkpoint, or a vocabulary."""
    name = function.signature.name
    if node.op in _OF_SAVERS:  # called by nobody once the graph is loaded
        return (
            _SAVER.fullmatch(name) is not None
            and name not in calls
            and name not in part.object_graph_def.concrete_functions
        )
    return node.op == _TABLE_OF_FILE and _is_asset(part, calls, function, "".join(node.input[1:2]))


def _is_asset(part: Any, calls: _Calls, function: Any, argument: str) -> bool:
    """Whether an argument is, wherever its function is called, one that the loader gives: an asset.

    That lies in the graph's folder. What a loaded model holds is called by functions that are written around it.
    """
    graph = part.object_graph_def
    seen, left = set[tuple[str, int]](), [(function, argument)]
    while left:
        function, argument = left.pop()
        name, arguments = function.signature.name, function.signature.input_arg
        places = [place for place, each in enumerate(arguments) if each.name == argument]
        # An argument that is a list would move those behind it.
        if len(places) != 1 or any(each.number_attr or each.type_list_attr for each in arguments):
            return False
        (place,) = places
        if (name, place) in seen:
            continue
        seen.add((name, place))
        callers = calls.get(name, [])
        if name in graph.concrete_functions:
            bound = graph.concrete_functions[name].bound_inputs  # the last ones
            first = len(arguments) - len(bound)
            if not 0 <= first <= place or not _is_file(graph, bound[place - first]):
                return False
        elif not callers:
            return False
        for caller, node in callers:
            if node is None or node.op not in _CALLS or node.attr["f"].func.name != name or len(node.input) <= place:
                return False
            left.append((caller, node.input[place]))
    return True


def _is_file(graph: Any, place: int) -> bool:
    return 0 <= place < len(graph.nodes) and bool(graph.nodes[place].WhichOneof("kind") == "asset")


def _calls(library: Any) -> _Calls:
    """Who may call a function: others, and it itself, that have its name in them. A gradient has it beside nodes."""
    calls: dict[str, list[tuple[Any, Any]]] = {}
    for function in library.function:
        for node in function.node_def:
            for name in {node.op, *_names(node.attr)}:
                calls.setdefault(name, []).append((function, node))
        for name in _names(function.attr):
            calls.setdefault(name, []).append((function, None))
    for gradient in library.gradient:
        for name in (gradient.function_name, gradient.gradient_func):
            calls.setdefault(name, []).append((None, None))
    return calls


def _names(attributes: Any) -> Iterator[str]:
    """All that may be names of functions in attributes."""
    left = list(attributes.values())
    while left:
        value = left.pop()
        yield from (text.decode(errors="replace") for text in (value.s, *value.list.s))
        for function in (value.func, *value.list.func):
            yield function.name
            left.extend(function.attr.values())
