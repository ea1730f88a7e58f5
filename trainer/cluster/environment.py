"""What the environment variables say about this process among the workers -> a `Place`.

Pure: no sockets, no TensorFlow. Read in this order, and the first that names a cluster counts:

1. `TF_CONFIG`, as Vertex AI, a Kubeflow TFJob, Beamfeed's launcher or a person writes it.
2. `PET_*` of Kubeflow Trainer, or `WORLD_SIZE` and `RANK` of torchrun. They tell where the
   first worker is and not where the others are: `beamfeed.trainer.cluster.rendezvous` finds that out.
3. `SLURM_*` in a step that `srun` started.

With none of them this process is alone. docs/training.md shows each of them.
"""

import json
import re
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NoReturn

from beamfeed.contract.errors import UserError

LARGEST_PORT = 65535

# Below the ports that Linux gives to outgoing connections (32768 and up), so that none of those is in the way.
SLURM_FIRST_PORT = 12000
SLURM_PORTS_PER_STEP = 32
SLURM_STEPS = 625
# Slurm numbers the batch script, salloc's shell and the like from the top; each is one process.
SLURM_FIRST_SPECIAL_STEP = 2**32 - 16

MOST_HOSTS = 100_000  # a mistyped range must not fill the memory


@dataclass(frozen=True)
class Place:
    """This process among the workers.

    Attributes:
      worker: index from 0; the chief is 0.
      workers: how many there are.
      addresses: host:port of each worker's TensorFlow server, in order of their indexes.
        Empty for one worker, and until `beamfeed.trainer.cluster.rendezvous.resolve` has asked around.
      source: what said so: TF_CONFIG, Kubeflow Trainer, torchrun, Slurm; empty for one worker.
      master: host:port where worker 0 collects the addresses, if they have to be collected.
    """

    worker: int = 0
    workers: int = 1
    addresses: tuple[str, ...] = ()
    source: str = ""
    master: str | None = None

    @property
    def is_chief(self) -> bool:
        return self.worker == 0


def set_reads(environ: MutableMapping[str, str]) -> None:
    """Says how TensorFlow reads gs://, unless the user did; before it is imported.

    Left to itself it fetches 64 MB for every block of records that is asked for,
    and keeps none. Measured in docs/gs.md.
    """
    environ.setdefault("GCS_READ_CACHE_BLOCK_SIZE_MB", "1")
    environ.setdefault("GCS_READ_CACHE_MAX_SIZE_MB", "256")


def read_place(environ: Mapping[str, str]) -> Place:
    """Finds this process among the workers.

    Raises:
      UserError: if the variables are wrong, or some of a set are missing.
    """
    for read in (_from_tf_config, _from_torchrun, _from_slurm):
        place = read(environ)
        if place is not None:
            return place if place.workers > 1 else Place()
    for name, partners in (("MASTER_ADDR", "WORLD_SIZE and RANK"), ("PET_MASTER_ADDR", "PET_NNODES and PET_NODE_RANK")):
        if value := _value(environ, name):
            # Left alone, every one of the processes would train by itself and call itself the chief.
            raise UserError(f"{name}: is {value!r}, so {partners} must be set too (or unset it, to train alone)")
    return Place()


# TF_CONFIG


def _from_tf_config(environ: Mapping[str, str]) -> Place | None:
    """`{"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}`; other keys are ignored."""
    text = _value(environ, "TF_CONFIG")
    if not text:
        return None
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        _wrong(f"is {text[:80]!r}, which is not JSON: {error}")
    if not isinstance(config, dict):
        _wrong(f"is {type(config).__name__}, it must be a mapping with cluster and task")
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
    groups = {kind: found for kind, entries in cluster.items() if (found := _entries(kind, entries))}
    if "ps" in groups:
        _wrong(f"cluster.ps is {groups['ps']}: there is no use for parameter servers, leave them out of the job")
    if unknown := sorted(set(groups) - {"chief", "master", "worker", "evaluator"}):
        _wrong(f"cluster holds {unknown}; it may hold chief (or master), worker and evaluator")
    chiefs = groups.get("chief", []) + groups.get("master", [])  # master is the old name of chief
    if len(chiefs) > 1:
        _wrong(f"cluster has the chiefs {', '.join(chiefs)}; there may be one")
    addresses = chiefs + groups.get("worker", [])
    for i, address in enumerate(addresses):
        if address in addresses[:i]:
            _wrong(f"cluster holds {address} twice, each worker needs an address of its own")
    kinds = [kind for kind in ("chief", "master", "worker") if kind in groups]
    if not isinstance(task, dict) or task.get("type") not in kinds:
        _wrong(f"task.type must be one of {', '.join(kinds)}, task is {task!r}")
    own = groups[task["type"]]
    index = _whole(task.get("index"))
    if index is None or index >= len(own):
        _wrong(f"task.index must be from 0 to {len(own) - 1}, as cluster.{task['type']} has it, task is {task!r}")
    worker = index if task["type"] != "worker" else len(chiefs) + index
    return Place(worker, len(addresses), tuple(addresses), "TF_CONFIG")


def _entries(kind: str, entries: object) -> list[str]:
    """The addresses of one kind of task; a mapping of index to address is as good as a list if it has all of them."""
    if isinstance(entries, dict):
        by_index = {_whole(key): address for key, address in entries.items()}
        if set(by_index) != set(range(len(entries))) or (kind == "worker" and len(entries) == 1):
            # An operator that starts workers one by one tells each only of itself. A lone 0 may be one of many.
            _wrong(f"cluster.{kind} is {entries!r}, a mapping must have every index from 0; better give a list")
        entries = [by_index[index] for index in range(len(entries))]
    if entries is None:
        return []
    if not isinstance(entries, list):
        _wrong(f"cluster.{kind} must be a list of host:port, not {entries!r}")
    for address in entries:
        if not isinstance(address, str) or not _is_address(address):
            _wrong(f"cluster.{kind} holds {address!r}, it must be host:port")
    return entries


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    number = _whole(port)
    return bool(re.fullmatch(r"[\w.-]+|\[[0-9A-Fa-f:.]+\]", host)) and number is not None and 0 < number <= LARGEST_PORT


def _wrong(what: str) -> NoReturn:
    raise UserError(f"TF_CONFIG: {what}") from None


# torchrun and Kubeflow Trainer


def _from_torchrun(environ: Mapping[str, str]) -> Place | None:
    """`PET_*` are torchrun's arguments, given to each node; RANK and its like are what it gives its children.

    PET_NPROC_PER_NODE is not read: one process serves all devices of its node.
    """
    is_child = bool(_value(environ, "LOCAL_RANK") and _value(environ, "RANK"))
    if not is_child and (_value(environ, "PET_NNODES") or _value(environ, "PET_NODE_RANK")):
        source, size, rank, prefix = "Kubeflow Trainer", "PET_NNODES", "PET_NODE_RANK", "PET_"
    elif _value(environ, "WORLD_SIZE") or _value(environ, "RANK"):
        source, size, rank, prefix = "torchrun", "WORLD_SIZE", "RANK", ""
    else:
        return None
    _, count = _need(environ, size)
    low, _, high = count.partition(":")
    if high and high != low:
        raise UserError(f"{size}: is {count!r}, a number of workers that changes; it must be one number from 1")
    workers = _number(size, low, 1)
    if workers == 1 and not _value(environ, rank):
        return Place()
    worker = _number(*_need(environ, rank), 0, workers - 1)
    if workers == 1:
        return Place()
    host_name, host = _need(environ, f"{prefix}MASTER_ADDR", "MASTER_ADDR")
    port_name, port_text = _need(environ, f"{prefix}MASTER_PORT", "MASTER_PORT")
    port = _number(port_name, port_text, 1, LARGEST_PORT)
    if is_child and _value(environ, "TORCHELASTIC_USE_AGENT_STORE").lower() == "true":
        port += 1 if port < LARGEST_PORT else -1  # torchrun itself listens on MASTER_PORT
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    if not _is_address(f"{host}:{port}"):
        raise UserError(f"{host_name}: is {host!r}, it must be a host name or an IP address")
    return Place(worker, workers, (), source, f"{host}:{port}")


# Slurm


def _from_slurm(environ: Mapping[str, str]) -> Place | None:
    """A task of a step. A batch script or a shell is one process, however many tasks its job may start."""
    if not any(_value(environ, name) for name in ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_STEP_ID", "SLURM_PROCID")):
        return None
    if not _value(environ, "SLURM_STEP_ID"):
        return Place()
    step = _number(*_need(environ, "SLURM_STEP_ID"), 0)
    if step >= SLURM_FIRST_SPECIAL_STEP:
        return Place()
    size, count = _need(environ, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS")
    workers = _number(size, count, 1)
    worker = _number(*_need(environ, "SLURM_PROCID"), 0, workers - 1)
    if workers == 1:
        return Place()
    nodes, nodelist = _need(environ, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
    tasks, per_node = _need(environ, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
    try:
        hosts = expand_hosts(nodelist)
    except ValueError as error:
        raise UserError(f"{nodes}: is {nodelist!r}, it must be like gpu[01-03,07],login5: {error}") from None
    try:
        counts = expand_counts(per_node)
    except ValueError as error:
        raise UserError(f"{tasks}: is {per_node!r}, it must be like 2(x3),1: {error}") from None
    if len(counts) != len(hosts) or sum(counts) != workers:
        raise UserError(
            f"{tasks}: is {per_node!r}, it must give {workers} tasks ({size}) to {len(hosts)} nodes ({nodes})"
        )
    seats = deal(counts, cyclic=_value(environ, "SLURM_DISTRIBUTION").startswith("cyclic"))
    for name, mine in zip(("SLURM_NODEID", "SLURM_LOCALID"), seats[worker], strict=True):
        # Each task checks its own seat, so an order of tasks that is not known here is found by one of them.
        if (told := _value(environ, name)) and told != str(mine):
            raise UserError(f"{name}: is {told!r} for task {worker}, not {mine}; start srun with --distribution=block")
    ports = _slurm_ports(environ, step, max(counts))
    return Place(worker, workers, tuple(f"{hosts[node]}:{ports[local]}" for node, local in seats), "Slurm")


def _slurm_ports(environ: Mapping[str, str], step: int, count: int) -> list[int]:
    """Ports of the tasks of one node: those that Slurm reserved for the step, else by the numbers of job and step."""
    name = "SLURM_STEP_RESV_PORTS"
    if reserved := _value(environ, name):
        try:
            ports = [int(port) for port in expand_hosts(f"[{reserved}]")]
        except ValueError:
            raise UserError(f"{name}: is {reserved!r}, it must be like 12000-12003") from None
        if len(ports) < count:
            raise UserError(f"{name}: is {reserved!r}, it must hold {count} ports, as by --resv-ports={count}")
        return ports
    job = _number(*_need(environ, "SLURM_JOB_ID", "SLURM_JOBID"), 0)
    # Jobs have consecutive numbers and so have steps; 25 keeps the first 25 jobs and steps apart from each other.
    base = SLURM_FIRST_PORT + (job + 25 * step) % SLURM_STEPS * SLURM_PORTS_PER_STEP
    return list(range(base, base + count))


def deal(counts: Sequence[int], cyclic: bool = False) -> list[tuple[int, int]]:
    """(node, index on the node) of each task: node after node, or one task to each node in turn."""
    block = [(node, local) for node, count in enumerate(counts) for local in range(count)]
    return sorted(block, key=lambda seat: seat[1]) if cyclic else block


def expand_hosts(text: str) -> list[str]:
    """`gpu[01-03,07],login5` -> gpu01, gpu02, gpu03, gpu07, login5.

    Raises:
      ValueError: if the text does not follow Slurm's rules.
    """
    hosts: list[str] = []
    for name in re.split(r",(?![^\[\]]*\])", text):  # at the commas outside brackets
        if not re.fullmatch(r"(?:[\w.-]+|\[[\d,-]+\])+", name, re.ASCII):
            raise ValueError(f"{name!r} is not a host or a range of hosts")
        parts = [
            _expand_range(inside) if inside else [plain] for inside, plain in re.findall(r"\[(.*?)\]|([^\[]+)", name)
        ]
        for combination in product(*parts):
            hosts.append("".join(combination))
            if len(hosts) > MOST_HOSTS:
                raise ValueError(f"these are more than {MOST_HOSTS} hosts")
    return hosts


def _expand_range(text: str) -> list[str]:
    """`01-03,07` -> 01, 02, 03, 07. The first number of a range says how many digits they have."""
    numbers: list[str] = []
    for item in text.split(","):
        match = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", item)
        if not match:
            raise ValueError(f"{item!r} in [{text}] is not a number or a range")
        first, last = match[1], match[2] or match[1]
        if not 0 <= int(last) - int(first) < MOST_HOSTS:
            raise ValueError(f"{item!r} must count up, by less than {MOST_HOSTS}")
        numbers += [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
    return numbers


def expand_counts(text: str) -> list[int]:
    """`2(x3),1` -> 2, 2, 2, 1.

    Raises:
      ValueError: if the text does not follow Slurm's rules.
    """
    counts: list[int] = []
    for item in text.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:\(x(\d{1,9})\))?", item, re.ASCII)
        if not match or int(match[2] or 1) > MOST_HOSTS:
            raise ValueError(f"{item!r} is not a number of tasks")
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


# Values


def _value(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name, "").strip()


def _need(environ: Mapping[str, str], *names: str) -> tuple[str, str]:
    """The first of these variables that is set, and its value."""
    for name in names:
        if value := _value(environ, name):
            return name, value
    raise UserError(f"{' or '.join(dict.fromkeys(names))}: is not set, but the other variables of the launcher are")


def _whole(value: object) -> int | None:
    """The value as a whole number from 0, or None. Launchers write numbers as strings too."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if value >= 0 else None
    return int(value) if isinstance(value, str) and re.fullmatch(r"\d{1,18}", value, re.ASCII) else None


def _number(name: str, text: str, low: int, high: int | None = None) -> int:
    number = _whole(text)
    if number is None or number < low or (high is not None and number > high):
        limits = f"from {low}" if high is None else f"from {low} to {high}"
        raise UserError(f"{name}: is {text!r}, it must be a whole number {limits}")
    return number
