"""TF_CONFIG, as Vertex AI, a Kubeflow TFJob, Beamfeed's launcher or a person writes it."""

import json
from collections.abc import Mapping, Sequence
from typing import NoReturn

from beamfeed.contract.cluster.variables import is_address, value_of, whole_number
from beamfeed.contract.cluster.worker_info import WorkerInfo
from beamfeed.contract.errors import UserError


def from_tf_config(environ: Mapping[str, str]) -> WorkerInfo | None:
    """`{"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}`; other keys are ignored.

    Returns:
      None where the variable is not set, or names no cluster.

    Raises:
      UserError: if it cannot be understood.
    """
    text = value_of(environ, "TF_CONFIG")
    if not text:
        return None
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        _wrong(f"is {text[:80]!r}, which is not JSON: {error}")
    if not isinstance(config, dict):
        _wrong(f"is {text[:80]!r}, it must be a mapping with cluster and task")
    task = config.get("task")
    if isinstance(task, dict) and task.get("type") == "evaluator":
        _wrong("task.type is 'evaluator': the workers evaluate, so this process is not needed; leave it out of the job")
    if config.get("sparseCluster"):
        _wrong("holds sparseCluster, which names only some of the workers; set enableDynamicWorker: false in the TFJob")
    cluster = config.get("cluster")
    if not cluster:
        return None
    if not isinstance(cluster, dict):
        _wrong(f"cluster must be a mapping of chief and worker to lists of host:port, not {cluster!r}")
    groups = {kind: group for kind, entries in cluster.items() if (group := _entries(kind, entries))}
    if "ps" in groups:
        _wrong(f"cluster.ps is {groups['ps']}: parameter servers are not supported; leave them out of the job")
    if unknown := sorted(set(groups) - {"chief", "master", "worker", "evaluator"}):
        _wrong(f"cluster holds {unknown}; it may hold chief (or master), worker and evaluator")
    chiefs = groups.get("chief", []) + groups.get("master", [])  # master is the old name of chief
    if len(chiefs) > 1:
        _wrong(f"cluster has the chiefs {', '.join(chiefs)}; there may be one")
    addresses = chiefs + groups.get("worker", [])
    for i, address in enumerate(addresses):
        if address in addresses[:i]:
            _wrong(f"cluster holds {address} twice, each worker needs its own address")
    kinds = [kind for kind in ("chief", "master", "worker") if kind in groups]
    if not isinstance(task, dict) or task.get("type") not in kinds:
        _wrong(f"task.type must be one of {', '.join(kinds)}, task is {task!r}")
    members = groups[task["type"]]
    index = whole_number(task.get("index"))
    if index is None or index >= len(members):
        _wrong(f"task.index must be from 0 to {len(members) - 1}, as cluster.{task['type']} has it, task is {task!r}")
    worker = index if task["type"] != "worker" else len(chiefs) + index
    return WorkerInfo(worker, len(addresses), tuple(addresses), "TF_CONFIG")


def tf_config(addresses: Sequence[str], index: int | str) -> str:
    """The variable's value for one of the workers at these addresses, the chief as the first."""
    return json.dumps({"cluster": {"worker": list(addresses)}, "task": {"type": "worker", "index": index}})


def _entries(kind: str, entries: object) -> list[str]:
    """The addresses of one kind of task; a mapping of index to address is as good as a list if it has all of them."""
    if isinstance(entries, dict):
        by_index = {whole_number(key): address for key, address in entries.items()}
        if set(by_index) != set(range(len(entries))) or (kind == "worker" and len(entries) == 1):
            # An operator that starts workers one by one tells each only of itself. A lone 0 may be one of many.
            _wrong(f"cluster.{kind} is {entries!r}, a mapping must have every index from 0; better give a list")
        entries = [by_index[index] for index in range(len(entries))]
    if entries is None:
        return []
    if not isinstance(entries, list):
        _wrong(f"cluster.{kind} must be a list of host:port, not {entries!r}")
    for address in entries:
        if not isinstance(address, str) or not is_address(address):
            _wrong(f"cluster.{kind} holds {address!r}, it must be host:port")
    return entries


def _wrong(problem: str) -> NoReturn:
    raise UserError(f"TF_CONFIG: {problem}") from None
