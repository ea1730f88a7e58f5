"""The variables of Slurm, in a step that `srun` started."""

import re
from collections.abc import Mapping, Sequence
from itertools import product

from beamfeed.contract.cluster.variables import number_of, require, value_of
from beamfeed.contract.cluster.worker_info import WorkerInfo
from beamfeed.contract.errors import UserError

# Below the ports that Linux gives to outgoing connections (32768 and up), so that none of those is in the way.
FIRST_PORT = 12000
PORTS_PER_STEP = 32
STEPS = 625
# Slurm numbers the batch script, salloc's shell and the like from the top; each is one process.
FIRST_SPECIAL_STEP = 2**32 - 16

MOST_HOSTS = 100_000  # a mistyped range must not fill the memory


def from_slurm(environ: Mapping[str, str]) -> WorkerInfo | None:
    """A task of a step. A batch script or a shell is one process, however many tasks its job may start."""
    if not any(value_of(environ, name) for name in ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_STEP_ID", "SLURM_PROCID")):
        return None
    if not value_of(environ, "SLURM_STEP_ID"):
        return WorkerInfo()
    step = number_of(*require(environ, "SLURM_STEP_ID"), 0)
    if step >= FIRST_SPECIAL_STEP:
        return WorkerInfo()
    size, count = require(environ, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS")
    workers = number_of(size, count, 1)
    worker = number_of(*require(environ, "SLURM_PROCID"), 0, workers - 1)
    if workers == 1:
        return WorkerInfo()
    nodes, nodelist = require(environ, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
    tasks, per_node = require(environ, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
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
    seats = deal(counts, cyclic=value_of(environ, "SLURM_DISTRIBUTION").startswith("cyclic"))
    for name, seat in zip(("SLURM_NODEID", "SLURM_LOCALID"), seats[worker], strict=True):
        # Each task checks its own seat, so an order of tasks that is not known here is found by one of them.
        if (text := value_of(environ, name)) and text != str(seat):
            raise UserError(f"{name}: is {text!r} for task {worker}, not {seat}; start srun with --distribution=block")
    ports = _ports(environ, step, max(counts))
    return WorkerInfo(worker, workers, tuple(f"{hosts[node]}:{ports[local]}" for node, local in seats), "Slurm")


def _ports(environ: Mapping[str, str], step: int, count: int) -> list[int]:
    """Ports of the tasks of one node: those that Slurm reserved for the step, else by the numbers of job and step."""
    name = "SLURM_STEP_RESV_PORTS"
    if reserved := value_of(environ, name):
        try:
            ports = [int(port) for port in expand_hosts(f"[{reserved}]")]
        except ValueError:
            raise UserError(f"{name}: is {reserved!r}, it must be like 12000-12003") from None
        if len(ports) < count:
            raise UserError(f"{name}: is {reserved!r}, it must hold {count} ports, as by --resv-ports={count}")
        return ports
    job = number_of(*require(environ, "SLURM_JOB_ID", "SLURM_JOBID"), 0)
    # Jobs have consecutive numbers and so have steps; 25 keeps the first 25 jobs and steps apart from each other.
    base = FIRST_PORT + (job + 25 * step) % STEPS * PORTS_PER_STEP
    return list(range(base, base + count))


def deal(counts: Sequence[int], cyclic: bool) -> list[tuple[int, int]]:
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
