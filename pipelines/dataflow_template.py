"""Submits preprocessing to Dataflow.

    python -m beamfeed.pipelines.dataflow_template --job gs://.../job.yaml [--set key=value] [Beam options]

The entry point of the Flex Template, and of the launcher. It returns when the job is
submitted. Exit codes as of beamfeed.pipelines.preprocess; what went wrong is one line.
"""

import logging
import os
import re
import sys
from collections.abc import Mapping, Sequence

from beamfeed.contract.config.load import load_job
from beamfeed.contract.ending import Ending
from beamfeed.contract.errors import JOB_FAILED, USER_MISTAKE, UserError
from beamfeed.contract.failure_log import FailureLog, complain
from beamfeed.contract.imports import heavy_imports
from beamfeed.contract.options import SUBMIT
from beamfeed.pipelines import preprocess
from beamfeed.pipelines.preprocess import TEMPLATE

PYTHON = (3, 11)  # of templates/Dockerfile: workers load code that was pickled here, which another version cannot run
# Set in the template's image: its own name, and that of the smaller one without TensorFlow.
IMAGE, WORKER_IMAGE = "BEAMFEED_IMAGE", "BEAMFEED_WORKER_IMAGE"


def arguments(argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """The arguments of a template as the pipeline takes them.

    A template has each parameter once, so that --set holds several overrides with
    semicolons between. The workers run in the image of the template, or in its smaller one where the job has no code
    of the user's own, which may need TensorFlow.

    Raises:
      UserError: if the job file cannot be read.
    """
    arguments_: list[str] = []
    for arg in argv:
        name, equals, value = arg.partition("=")
        if name == "--set" and equals and TEMPLATE in env:
            arguments_ += [f"--set={override.strip()}" for override in value.split(";") if override.strip()]
        else:
            arguments_.append(arg)
    names = {arg.partition("=")[0] for arg in arguments_}
    if "--runner" not in names:
        arguments_.append("--runner=DataflowRunner")
    image, own = env.get(IMAGE), preprocess.own_options(arguments_)
    if image and "--sdk_container_image" not in names:
        lean = env.get(WORKER_IMAGE) and own.job and not load_job(own.job, own.set).own_code
        arguments_.append(f"--sdk_container_image={env[WORKER_IMAGE] if lean else image}")
    return arguments_


def check_options(argv: Sequence[str]) -> None:
    """Raises UserError for another Python than the images', and for options that the service needs and has not."""
    from apache_beam.options.pipeline_options import GoogleCloudOptions

    from beamfeed.pipelines.options import read_options, usage_as_mistake

    if sys.version_info[:2] != PYTHON:
        raise UserError(
            f"Dataflow: this is Python {'.'.join(map(str, sys.version_info[:2]))}, and the images have "
            f"{'.'.join(map(str, PYTHON))}; submit with that"
        )
    options = read_options(argv)
    with usage_as_mistake():
        cloud = options.view_as(GoogleCloudOptions)
    for name in ("project", "region", "temp_location"):
        if not getattr(cloud, name):
            raise UserError(f"Dataflow: --{name}: is missing; give it, or launch.preprocess.dataflow.{name}")


def explain(error: Exception) -> tuple[int, str] | None:
    """The exit code of a submission that failed, and what to do about it in one line; None for what is not known."""
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import GoogleAuthError

    message = " ".join(str(getattr(error, "message", None) or error).split())[:500]
    message = re.sub(r"^(GET|POST|PUT) \S+: ", "", message)
    if isinstance(error, GoogleAuthError):
        return USER_MISTAKE, f"credentials: {message}; run `gcloud auth application-default login`"
    if isinstance(error, GoogleAPICallError):
        code = int(error.code or 0)
        if code == 429 or "quota" in message.lower():
            return JOB_FAILED, (
                f"quota: {message}; wait for other jobs to end, lower launch.preprocess.dataflow.max_workers, "
                "or ask for more under IAM & Admin > Quotas"
            )
        if code in (401, 403):
            return USER_MISTAKE, (
                f"no permission: {message}; the account needs roles/dataflow.developer, "
                "roles/iam.serviceAccountUser on the workers' account, and on the buckets roles/storage.objectAdmin "
                "and roles/storage.legacyBucketReader"
            )
        if 400 <= code < 500:
            return USER_MISTAKE, message
        return JOB_FAILED, f"no answer: {code} {message}; nothing was submitted, run the same command again"
    if type(error).__name__ == "DataflowJobAlreadyExistsError":
        return JOB_FAILED, message
    if isinstance(error, ValueError) and "validations errors" in message:
        return USER_MISTAKE, message.partition(":")[2].strip()
    if isinstance(error, OSError) and "GCS" in message:
        return USER_MISTAKE, message
    return None


def main(argv: Sequence[str] | None = None, ending: Ending | None = None) -> int:
    """Submits a job and returns the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    if SUBMIT.shows_help(argv):
        return 0
    if TEMPLATE not in os.environ:
        logging.disable()  # what matters comes back as an exception; the logs of a template are for the cloud
    log = FailureLog()
    try:
        template_args = arguments(argv, os.environ)
        with heavy_imports():
            import apache_beam  # noqa: F401
        check_options(template_args)
        preprocess.run(template_args, ending or Ending(), log)
    except UserError as error:
        print(error, file=sys.stderr)
        return USER_MISTAKE
    except Exception as error:
        explained = explain(error)
        if explained is None:
            if TEMPLATE in os.environ:  # where nobody would find a file
                raise
            return complain(error, log)
        print(f"Dataflow: {explained[1]}", file=sys.stderr)
        return explained[0]
    return 0


if __name__ == "__main__":
    preprocess.run_program(main)
