"""Entry point of preprocessing.

    python -m beamfeed.pipelines.preprocess --job job.yaml [--set key=value] [Beam options]

On a local runner it returns when the dataset is published; on another it submits
the job and returns, as a Flex Template must. Exit codes: 0 done, 1 the job failed,
2 a mistake of the user's.
"""

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.load import load_job
from beamfeed.contract.dataset.fingerprint import data_fingerprint
from beamfeed.contract.dataset.layout import DATA_PREFIX, LOCK, MANIFEST, DataLayout, lock_path
from beamfeed.contract.dataset.manifest import leftovers, read_complete
from beamfeed.contract.errors import UserError, find_job_failure
from beamfeed.contract.imports import heavy_imports
from beamfeed.contract.storage import lock
from beamfeed.contract.storage.files import FileStat

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# How much TensorFlow asks of gs:// at once. By default 64 MB, which each open file then keeps in memory;
# with less than this, shards are read back slower, as each request waits for the one before (docs/gs.md).
os.environ.setdefault("GCS_READ_CACHE_BLOCK_SIZE_MB", "16")


def list_source(job: Job) -> list[FileStat]:
    """The one listing of the input.

    Raises:
      UserError: if no file matches.
    """
    try:
        files, empty = storage.match_inputs(job.source.patterns, job.source.suffixes)
    except OSError as error:
        raise UserError(f"source.files: {', '.join(job.source.patterns)}: {str(error).splitlines()[0]}") from None
    if empty:
        raise UserError(f"source.files: no file matches {empty[0]} (suffixes: {job.source.tell_suffixes()})")
    return files


def check_output(output: str) -> None:
    """Raises UserError if the folder holds something that is not a dataset."""
    if not storage.is_remote(output) and os.path.exists(output) and not os.path.isdir(output):
        raise UserError(f"output.path: {output} is a file, it must be a folder")
    others = [
        name
        for name in storage.list_folder(output)
        if name not in (MANIFEST, LOCK) and not name.startswith((DATA_PREFIX, f"{MANIFEST}.tmp-"))
    ]
    if others:
        raise UserError(
            f"output.path: {output} holds something else ({', '.join(others[:3])}); give a folder of its own"
        )


def is_done(job: Job, fingerprint: str) -> bool:
    """Whether the dataset is published already; removes what a run that was killed after publishing left."""
    manifest = read_complete(job.output.path, fingerprint)
    if manifest is None:
        return False
    if leftovers(job.output.path, manifest) or storage.exists(lock_path(job.output.path)):
        with suppress(UserError), lock.hold(lock_path(job.output.path)):  # held by another run: nothing is touched
            for path in leftovers(job.output.path, manifest):
                storage.remove_tree(path)
    print(f"{job.output.path} is complete: the same job on the same input. Nothing to do.")
    return True


def run(argv: Sequence[str]) -> None:
    """Parses the options and runs, or submits, the job.

    Raises:
      UserError, JobFailed
    """
    with heavy_imports():
        from apache_beam.options.pipeline_options import PipelineOptions

        from beamfeed.pipelines.options import JobOptions

    options = PipelineOptions(list(argv))
    own = options.view_as(JobOptions)
    if not own.job:
        raise UserError("--job: is missing; give a job file, such as --job job.yaml")
    job = load_job(own.job, own.overrides)
    files = list_source(job)
    fingerprint = data_fingerprint(job, files)
    if is_done(job, fingerprint):
        return
    check_output(job.output.path)
    with lock.hold(lock_path(job.output.path)):
        if not is_done(job, fingerprint):  # by a run that has just ended
            preprocess(job, files, fingerprint, options)


def preprocess(job: Job, files: list[FileStat], fingerprint: str, options: Any) -> None:
    """Builds the pipeline and runs, or submits, it."""
    with heavy_imports():
        import apache_beam as beam
        import tensorflow as tf
        import tensorflow_transform.beam as tft_beam

        from beamfeed.pipelines.build import PreprocessPipeline, write_listing
        from beamfeed.pipelines.options import JobOptions
        from beamfeed.pipelines.runner import choose_runner, is_local
        from beamfeed.transforms.progress import Progress
        from beamfeed.transforms.sources import make_source

        # Preprocessing needs no GPU, and must not take its memory from a trainer.
        tf.config.set_visible_devices([], "GPU")

    source, files = make_source(job, files)
    for remark in source.remarks:
        print(remark, flush=True)
    layout = DataLayout.of(job.output.path, fingerprint)
    progress = Progress(options.view_as(JobOptions).progress_dir)
    progress.total("scan", len(files))
    pipeline = beam.Pipeline(choose_runner(options, job.launch.preprocess.workers), options=options)
    if is_local(options):
        storage.remove_tree(layout.root)  # of a run that did not end. Elsewhere it may be one that goes on
    write_listing(layout, files)
    # Beam remarks on type hints of TensorFlow Transform.
    with _log_level(logging.ERROR), tft_beam.Context(temp_dir=f"{layout.temporary}/tft"):
        PreprocessPipeline(source, layout, fingerprint, len(files), progress).build(pipeline)
    # A local runner's errors come back as exceptions, with all that its log would say.
    with _log_level(logging.CRITICAL if is_local(options) else logging.INFO):
        pipeline.run()


@contextmanager
def _log_level(level: int) -> Iterator[None]:
    root = logging.getLogger()
    before = root.level
    root.setLevel(level)
    try:
        yield
    finally:
        root.setLevel(before)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs or submits a job and returns the exit code."""
    try:
        run(sys.argv[1:] if argv is None else argv)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except Exception as error:
        message = find_job_failure(str(error))
        if message is None:
            raise
        print(message, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    exit_code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)  # all is written; taking TensorFlow's and Beam's modules apart would take another second
