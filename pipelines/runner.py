"""The runner of a job: threads of this process where the options name none, and the wait for any other."""

import os
import re
from collections.abc import Sequence
from typing import Any, Literal

import grpc
from apache_beam import Pipeline
from apache_beam.options.pipeline_options import (
    DirectOptions,
    PipelineOptions,
    PortableOptions,
    SetupOptions,
    StandardOptions,
)
from apache_beam.runners.portability.job_server import JobServer
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState, create_runner

from beamfeed.contract.cores import available_cores
from beamfeed.contract.errors import JobFailed, UserError, first_line, near_miss
from beamfeed.contract.storage import FileStat
from beamfeed.pipelines.in_process import remember_arguments, remember_specs, sample_often

LOCAL_RUNNER = "FnApiRunner"
MANY_FILES, SMALL_BYTES = 4000, 64 * 1024
# 'DirectRunner' looks for another one to download before it does what FnApiRunner does.
LOCAL_NAMES = ("direct", "fnapi")
DATAFLOW_RUNNER = "DataflowRunner"
WORKER_POOL = "apache_beam.runners.worker.worker_pool_main"
JOB_ID_FILE = "BEAMFEED_JOB_ID_FILE"  # set by the launcher; not an option, as those are shown with the job


def is_local(options: PipelineOptions) -> bool:
    """Whether the job runs in this process, once `choose_runner` has been called."""
    return options.view_as(StandardOptions).runner == LOCAL_RUNNER


def in_this_process(options: PipelineOptions) -> bool:
    """Whether the job's workers are threads of this process, once `choose_runner` has been called."""
    return is_local(options) and options.view_as(DirectOptions).direct_running_mode != "multi_processing"


def is_dataflow(options: PipelineOptions) -> bool:
    """Whether the job goes to Dataflow, where it outlives this process."""
    return options.view_as(StandardOptions).runner == DATAFLOW_RUNNER


def name_runner(options: PipelineOptions) -> bool:
    """Writes the runner's own name into the options; returns whether it hands unknown options on to a job server.

    Raises:
      UserError: if Beam has no such runner.
    """
    standard = options.view_as(StandardOptions)
    named: str = standard.runner or LOCAL_RUNNER
    if named.lower().removesuffix("runner") in LOCAL_NAMES:
        standard.runner = LOCAL_RUNNER
        return False
    try:
        runner = create_runner(named)
    except Exception as error:
        names = StandardOptions.KNOWN_RUNNER_NAMES
        reason = f"cannot be loaded: {first_line(error)}" if "." in named else f"is none of {', '.join(names)}"
        raise UserError(f"--runner: {named!r} {reason}{near_miss(named, names)}") from None
    if type(runner).__name__ in StandardOptions.KNOWN_RUNNER_NAMES:
        standard.runner = type(runner).__name__
        return isinstance(runner, PortableRunner)
    return True


def choose_runner(
    options: PipelineOptions, workers: int | Literal["auto"], *, in_processes: bool = False
) -> PipelineRunner | None:
    """The runner of a job; None where Beam makes the one that the options name.

    Without --runner, the job runs here, on `workers` threads; auto: one for each
    core it may use. Threads share one process: Arrow and TensorFlow do the work
    outside of Python's lock, and nothing has to be imported twice.

    Args:
      options: of the job.
      workers: of a local run.
      in_processes: whether they are to be processes, each with a lock of its own; see `are_many_small`.

    Raises:
      UserError: if Beam has no such runner.
    """
    remember_specs()
    remember_arguments()
    sample_often()
    name_runner(options)
    direct = options.view_as(DirectOptions)
    options.view_as(SetupOptions).save_main_session = False
    if is_dataflow(options):
        return _dataflow_runner(os.environ.get(JOB_ID_FILE))
    named = options.get_all_options(drop_default=True)
    if not is_local(options) or named.get("direct_running_mode", "multi_threading") != "multi_threading":
        return None
    if "direct_num_workers" not in named:
        direct.direct_num_workers = available_cores() if workers == "auto" else workers
    if in_processes and direct.direct_num_workers > 1 and "direct_running_mode" not in named:
        direct.direct_running_mode = "multi_processing"
        return None
    # Beam's own multi_threading talks to its threads by gRPC, which copies what steps hand on again and again. It also
    # flushes it once a second from another thread, in the middle of an element, and what is read then is garbage.
    direct.direct_running_mode = "in_memory"
    return None


def are_many_small(files: Sequence[FileStat]) -> bool:
    """Whether the work on some files is mostly Python's, and worth the seconds in which processes start.

    Of 10,000 CSVs of 40 rows, two processes make a dataset in half the time that two threads take
    (`benchmarks/small_files.py`).
    """
    return len(files) >= MANY_FILES and sum(file.size for file in files) <= SMALL_BYTES * len(files)


def servers_of(runner: PipelineRunner) -> list[JobServer]:
    """The job servers that a runner starts on this machine, Prism or those of Flink and Spark; filled as it does.

    Who opens the pipeline stops them. Beam would do so where Python takes itself apart, and our programs leave at once.
    """
    started: list[JobServer] = []
    if isinstance(runner, PortableRunner):
        make = runner.default_job_server

        def make_server(options: PipelineOptions) -> JobServer:
            started.append(make(options))
            return started[-1]

        runner.default_job_server = make_server  # type: ignore[method-assign]
    return started


def hand_in(pipeline: Pipeline, options: PipelineOptions) -> PipelineResult:
    """Begins to run a pipeline.

    Raises:
      UserError: if what listens where a job server should is none.
    """
    try:
        return pipeline.run()
    except grpc.FutureTimeoutError:
        server = options.view_as(PortableOptions).job_endpoint
        raise UserError(f"job_server: what answers at {server} is no job server of Beam") from None


def wait_for(result: PipelineResult, options: PipelineOptions) -> None:
    """Waits until the job has ended.

    A local runner comes back when all is done; one that hands the job to a cluster does not.

    Raises:
      JobFailed: if it ended in another state than done, or the cluster could not run it. Errors of workers come as the
        runner raises them.
    """
    try:
        state = result.wait_until_finish() or result.state
    except grpc.RpcError as error:
        server = options.view_as(PortableOptions).job_endpoint
        raise JobFailed(
            f"the job server{f' at {server}' if server else ''} does not answer any more "
            f"({getattr(error, 'details', lambda: None)() or type(error).__name__}); the job may go on without it"
        ) from error
    except RuntimeError as error:
        portable = options.view_as(PortableOptions)
        pool = portable.environment_config if portable.environment_type == "EXTERNAL" else None
        if trouble := trouble_of_engine(str(error), pool):
            raise JobFailed(trouble) from error
        raise
    if state != PipelineState.DONE:
        raise JobFailed(f"the runner says that the job is {str(state).lower()}; nothing was published")


def trouble_of_engine(trace: str, pool: str | None) -> str | None:
    """Why an engine could not run a job, and the next step; None where the reason is another.

    Args:
      trace: by the engine, a stack of Java's.
      pool: the address of the worker pool, where there is to be one.
    """
    if "ConnectException" in trace and pool:
        return (
            f"a machine of the cluster finds no worker pool at {pool}; start one on each: "
            f"python -m {WORKER_POOL} --service_port={pool.rpartition(':')[2]}"
        )
    if "JobCancellationException" in trace:
        return "the job was cancelled; nothing was published"
    if 'Cannot run program "docker"' in trace:
        return "a machine of the cluster has no docker to start workers with; install it, or give a worker pool"
    if "Insufficient number of network buffers" in trace:
        return "Flink has too few network buffers; raise taskmanager.memory.network.max, such as to 256m"
    if "NoResourceAvailableException" in trace or re.search(r"TimeoutException: Timeout has occurred: \d+ ms", trace):
        return "Flink found no free slot for a task in time; lower parallelism, or start more task managers"
    return None


def _dataflow_runner(job_id_file: str | None) -> Any:
    """Beam's runner, which also writes down which job it started."""
    from apache_beam.runners import DataflowRunner as BeamRunner

    class DataflowRunner(BeamRunner):  # Beam's checks of options go by this name
        def run_pipeline(self, *args: Any, **kwargs: Any) -> Any:
            result = super().run_pipeline(*args, **kwargs)
            if job_id_file and result.has_job:
                with open(job_id_file, "w", encoding="utf-8") as file:
                    file.write(result.job_id())
            return result

    return DataflowRunner()
