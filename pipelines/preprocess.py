"""Entry point of preprocessing.

    python -m beamfeed.pipelines.preprocess --job job.yaml [--set key=value] [Beam options]

It returns when the dataset is published. Only on Dataflow it submits the job and
returns, as a Flex Template must. Exit codes: 0 done, 1 the job failed, 2 a mistake
of the user's.
"""

import argparse
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from beamfeed.contract import storage, streams
from beamfeed.contract.arguments import add_options
from beamfeed.contract.config.features import own_functions
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.load import load_job
from beamfeed.contract.dataset.fingerprint import data_fingerprint
from beamfeed.contract.dataset.growth import data_layout, find_grown, fingerprint_of, fingerprint_with, write_files
from beamfeed.contract.dataset.layout import DATA_PREFIX, LOCK, MANIFEST, RUNS, DataLayout, lock_path
from beamfeed.contract.dataset.limits import check_complete
from beamfeed.contract.dataset.manifest import Manifest, find_replaceable
from beamfeed.contract.dataset.published import check_owner, leftovers, read_complete
from beamfeed.contract.ending import Ending, leave
from beamfeed.contract.errors import JobFailed, Unanswered, UserError
from beamfeed.contract.failure_log import FailureLog, complain
from beamfeed.contract.imports import heavy_imports, spare_pandas
from beamfeed.contract.options import PREPROCESS
from beamfeed.contract.program import Program
from beamfeed.contract.storage import lock
from beamfeed.contract.storage.files import FileStat
from beamfeed.contract.verbosity import logging_from, note
from beamfeed.transforms.tracing import Tracing

if TYPE_CHECKING:  # what reads rows is loaded beside TensorFlow
    from beamfeed.transforms.growth import Growth

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

TEMPLATE = "FLEX_TEMPLATE_PYTHON_PY_FILE"  # set in the template's image
Main = Callable[..., int]  # of the command line and an Ending, both those of the process unless given


def check_folder(output: str) -> None:
    """Raises UserError if there is a file in the folder's place."""
    if not storage.is_remote(output) and os.path.exists(output) and not os.path.isdir(output):
        raise UserError(f"output.path: {output} is a file, it must be a folder")


def check_output(output: str) -> None:
    """Raises UserError if the folder holds something that is not a dataset."""
    others = [name for name in storage.list_folder(output) if name not in (MANIFEST, LOCK, RUNS)]
    strangers = [name for name in others if not name.startswith((DATA_PREFIX, f"{MANIFEST}.tmp-"))]
    if strangers:
        raise UserError(
            f"output.path: {output} holds something else ({', '.join(strangers[:3])}); choose another folder"
        )


def conclude(job: Job, manifest: Manifest) -> None:
    """Says that the dataset is published already, and removes what a run that was killed after publishing left.

    Raises:
      JobFailed: if it is not within the limits of this job.
    """
    check_complete(job, manifest)
    with suppress(UserError, Unanswered):  # held by another run: nothing is touched
        if leftovers(job.output.path, manifest) or storage.exists(lock_path(job.output.path)):
            with lock.hold(lock_path(job.output.path)):
                for path in leftovers(job.output.path, manifest):
                    storage.remove_tree(path)
    note(f"{job.output.path} is complete: the same job on the same input. Nothing to do.", sys.stdout)


def run(argv: Sequence[str], ending: Ending, log: FailureLog) -> None:
    """Parses the options and runs, or submits, the job.

    Raises:
      UserError, JobFailed
    """
    own = own_options(argv)
    if not own.job:
        beam_options(argv)  # may know why
        raise UserError("--job: is missing; give a job file, such as --job job.yaml")
    job = load_job(own.job, own.set)
    files = job.source.list_files()
    refit = own.refit == "true"
    fingerprint = data_fingerprint(job, files) if refit else fingerprint_of(job, files)
    check_folder(job.output.path)
    complete = read_complete(job.output.path, fingerprint)
    # Functions of the user's own load TensorFlow here, and are analyzed by the pipeline.
    traces = job.source.has_graph and not own_functions(job.features)
    known = None if refit else find_grown(job)  # whose graph is taken over
    with closing(Tracing(complete is None and known is None and traces)) as tracing:
        options = beam_options(argv)
        with heavy_imports():
            from beamfeed.pipelines.packages import own_packages
            from beamfeed.pipelines.runner import is_local
            from beamfeed.transforms.find_growth import find_growth, prepare_all, why_not_added
        if complete is not None:
            return conclude(job, complete)
        check_output(job.output.path)

        def check_whose() -> None:
            if own.replace != "true":
                check_owner(job, find_replaceable(job.output.path)[0])

        check_whose()  # before a lock is made there
        with lock.hold(lock_path(job.output.path), ending), ending.undoing(tracing.close):
            fingerprint = fingerprint if refit else fingerprint_of(job, files)  # after a run that has just ended
            complete = read_complete(job.output.path, fingerprint)
            if complete is not None:
                return conclude(job, complete)
            check_whose()  # that may have been one of another job
            growth, new = find_growth(job, files, refit=refit)
            layout = data_layout(job, fingerprint)
            with ExitStack() as packages, ending.undoing(packages.close):
                packages.enter_context(own_packages(job, options, local=is_local(options)))
                while True:
                    if why := why_not_added(growth, layout):  # found by this run, or by one that nobody waited for
                        growth, new = prepare_all(growth, why), files
                    fingerprint = fingerprint_with(job, files, growth.gone, growth.grows)
                    try:
                        return preprocess(job, files, fingerprint, options, tracing, ending, log, growth, new)
                    except Exception:
                        why = ""
                        with suppress(Unanswered):  # it is the job's failure that is told
                            why = why_not_added(growth, layout)
                        if not why:
                            raise
                        log.clear()


def own_options(argv: Sequence[str]) -> argparse.Namespace:
    """Our own among the options, before Beam is loaded, which knows the others; none where one has no value."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    add_options(parser, PREPROCESS.subject)
    try:
        return parser.parse_known_args(list(argv))[0]
    except argparse.ArgumentError:
        return parser.parse_args([])


def beam_options(argv: Sequence[str]) -> Any:
    """All options, with the runner's own name.

    Raises:
      UserError: if one is wrong.
    """
    with heavy_imports():
        from beamfeed.pipelines.options import check_options, read_options
        from beamfeed.pipelines.runner import name_runner
    spare_pandas()

    options = read_options(argv)
    passes_on = name_runner(options)
    if TEMPLATE not in os.environ:  # the service has checked its parameters; what else its launcher gives is its own
        check_options(argv, passes_on=passes_on)
    return options


def preprocess(
    job: Job, files: list[FileStat], fingerprint: str, options: Any, tracing: Tracing, ending: Ending, log: FailureLog,
    growth: "Growth", new: Sequence[FileStat],
) -> None:  # fmt: skip
    """Builds the pipeline and runs, or submits, it.

    Args:
      job: that is to run.
      files: that it lists.
      fingerprint: of the dataset.
      options: of Beam.
      tracing: that may be told to trace the source's graph.
      ending: of the process.
      log: that hears what is logged.
      growth: how it goes on from the dataset that is there.
      new: the files that it prepares.

    Raises:
      JobFailed: if the job did not come to its end. Errors of workers come as the runner raises them.
    """
    with heavy_imports():
        from beamfeed.contract.progress import Progress
        from beamfeed.pipelines.build import PreprocessPipeline, write_listing
        from beamfeed.pipelines.options import JobOptions
        from beamfeed.pipelines.runner import are_many_small, choose_runner, in_this_process, is_dataflow, is_local
        from beamfeed.transforms.growth import Learned
        from beamfeed.transforms.sources import make_source
        from beamfeed.transforms.sources.checking import adding

    layout = data_layout(job, fingerprint)
    source, read = make_source(growth.reading(job), files)
    for remark in source.remarks:
        note(remark, sys.stdout)
    if growth.published is not None:
        learned = Learned.read(growth.before(job.output.path).learned)
        growth.check(source, learned.statistics)
        note(growth.describe(len(new)), sys.stdout)
        if growth.adds:
            with adding(layout.again):
                source = source.adding(new, learned.rows)
    chosen = {stat.path for stat in new}
    files, listing = [stat for stat in read if stat.path in chosen], files
    progress = Progress(options.view_as(JobOptions).progress_dir)
    launch = job.launch.preprocess
    shared = not (launch.packages or job.own_code)  # else other processes would not find the job's own code
    runner = choose_runner(options, launch.workers, in_processes=shared and are_many_small(files))
    local, waits = is_local(options), not is_dataflow(options)  # asked now: a runner may clear its name
    if local:
        storage.remove_tree(layout.root)  # of a run that did not end. Elsewhere it may be one that goes on
    progress.begin()
    log.folders = () if storage.is_remote(layout.temporary) else (layout.temporary,)
    graph = source.graph if growth.published is None else None
    if graph:
        tracing.trace(graph, layout.traced)
    else:
        tracing.close()
    with open_pipeline(runner, options, ending) as pipeline, _tidied(layout, tracing) if local else nullcontext():
        listed = source.listed(files, layout.scratch)
        progress.total("scan", len(listed))
        write_listing(layout, listed)
        if growth.job:
            before = growth.before(job.output.path) if growth.adds else None
            write_files(job, listing, growth.gone, layout, chosen, before)
        if growth.adds:
            storage.write_text(layout.base, storage.read_text(growth.added_to))
        with logging_from(logging.ERROR):  # Beam remarks on type hints of tensorflow-transform
            PreprocessPipeline(source, layout, fingerprint, len(files), progress, growth).build(pipeline)
        if graph and not in_this_process(options):
            tracing.wait()
        if not waits:
            with logging_from(logging.INFO):
                pipeline.run()
            return
        run_to_end(pipeline, options, ending, log, local=local)
    if not local and read_complete(job.output.path, fingerprint) is None:
        raise JobFailed(
            f"the job ended, but {job.output.path} holds no dataset of it; can the workers write there, "
            "and did its input change?"
        )


@contextmanager
def open_pipeline(runner: Any, options: Any, ending: Ending) -> Iterator[Any]:
    """A pipeline. Its folder for temporary files, and a job server that it starts here, go also where it fails."""
    import apache_beam as beam

    from beamfeed.pipelines.in_process import steps_stay
    from beamfeed.pipelines.runner import in_this_process, servers_of

    pipeline = beam.Pipeline(runner, options=options)
    servers = servers_of(pipeline.runner)

    def close() -> None:
        shutil.rmtree(pipeline.local_tempdir, ignore_errors=True)
        for server in servers:
            with suppress(Exception):  # it is the job's failure that is told
                server.stop()

    try:
        with ending.undoing(close), steps_stay(in_this_process(options)):
            yield pipeline
    finally:
        close()


def run_to_end(pipeline: Any, options: Any, ending: Ending, log: FailureLog, *, local: bool) -> None:
    """Runs a pipeline, in this process or, where it is not `local`, on a cluster, until it has ended.

    Raises:
      JobFailed: if the job did not come to its end. Errors of workers come as the runner raises them.
    """
    from beamfeed.pipelines.runner import hand_in, wait_for

    with log.listening(logging.WARNING if local else logging.INFO):
        result = hand_in(pipeline, options)
        with ending.undoing(result.cancel):
            wait_for(result, options)


@contextmanager
def opened(argv: Sequence[str], ending: Ending, log: FailureLog) -> Iterator[Any]:
    """A pipeline to add steps to, which runs until its end when this is left.

    Args:
      argv: options of Beam.
      ending: of the process.
      log: that hears what is logged.

    Raises:
      UserError: if an option of Beam is wrong.
      JobFailed: if the job did not come to its end. Errors of workers come as the runner raises them.
    """
    options = beam_options(argv)
    from beamfeed.pipelines.runner import choose_runner, is_local

    asks_for_one = any(option.startswith("--direct_num_workers") for option in argv)  # which is Beam's default
    runner = choose_runner(options, 1 if asks_for_one else "auto")
    local = is_local(options)  # asked now: a runner may clear its name
    with open_pipeline(runner, options, ending) as pipeline:
        with logging_from(logging.ERROR):  # Beam remarks on type hints
            yield pipeline
        run_to_end(pipeline, options, ending, log, local=local)


@contextmanager
def _tidied(layout: DataLayout, tracing: Tracing) -> Iterator[None]:
    """Leaves no temporary files of a job that fails."""
    try:
        yield
    except BaseException:
        with suppress(Exception):  # it is the job's failure that is told
            tracing.close()  # it writes there
            storage.remove_tree(layout.temporary)
        raise


def main(argv: Sequence[str] | None = None, ending: Ending | None = None) -> int:
    """Runs or submits a job and returns the exit code."""
    arguments, log, ending = sys.argv[1:] if argv is None else argv, FailureLog(), ending or Ending()
    if PREPROCESS.shows_help(arguments):
        return 0
    try:
        with ending.scratch():
            run(arguments, ending, log)
    except Exception as error:
        ending.let_end()
        return complain(error, log)
    return 0


def main_of(program: Program, work: Callable[[argparse.Namespace, Ending, FailureLog], int | None]) -> Main:
    """The main function of a program: runs or refuses a command line, and returns the exit code.

    Args:
      program: whose command line it is.
      work: of the parsed command line; returns an exit code, or None for 0.
    """

    def main(argv: Sequence[str] | None = None, ending: Ending | None = None) -> int:
        log, at_end = FailureLog(), ending or Ending()

        def run(args: argparse.Namespace) -> int | None:
            try:
                with at_end.scratch():
                    return work(args, at_end, log)
            except Exception:
                at_end.let_end()
                raise

        return program.run(run, argv, log)

    return main


def run_program(main: Main) -> None:
    """Runs the main function of a program, and ends the process with the exit code that it returns."""
    streams.take_over()
    ending = Ending()
    ending.watch_signals()
    code = streams.flushed(main(ending=ending))
    leave(code)  # all is written


if __name__ == "__main__":
    run_program(main)
