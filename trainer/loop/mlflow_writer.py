"""The metrics of a training run on an MLflow tracking server, which a team shares.

The address is `MLFLOW_TRACKING_URI`, and MLflow reads its other variables too. The server may come and go: a training
run does not end for it. What it missed is sent with the next evaluation.
"""

import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from beamfeed.contract import storage
from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.dataset.fingerprint import leaves
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.errors import UserError
from beamfeed.contract.tracking import address
from beamfeed.contract.verbosity import note
from beamfeed.trainer.loop.writers import Writer

STEP_SECONDS = 10.0  # from one value of steps to the next
TRY_AGAIN_SECONDS = 60.0
AT_A_TIME = {"metrics": 1000, "params": 100}  # as the server takes them
SETTINGS = {
    # A training run waits for what is sent.
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


class MLflow(Writer):
    """One run of the experiment that has the job's name; started again, a training run goes on with it.

    Its parameters are the section `train` of the job. Evaluations come by their names, calls of steps under `steps/`
    every ten seconds, and pictures as artifacts.

    Raises:
      UserError: if a new run cannot be made on the server.
    """

    def __init__(self, names: RunLayout, job: TrainingJob, step: int):
        from mlflow.entities import Metric, Param

        self._path, self._job, self._metric, self._param = names.mlflow, job, Metric, Param
        self._client = _client()
        self._run, self._has_parameters = "", False
        self._begins = step
        self._sent: set[int] = set()  # the steps of evaluations that the server has
        self._lines: list[dict[str, Any]] = []  # all evaluations so far
        self._next = 0.0  # when a value of steps may be sent
        self._failed: dict[str, float] = {}  # when to try what did not go through again
        run_id = _noted_run(self._path)
        if not run_id:
            with _reached():
                self._create()
        else:
            self._try("evaluations", lambda: self._go_on(run_id))
        self._try("parameters", self._log_parameters)

    def steps(self, step: int, values: Mapping[str, float]) -> None:
        if time.monotonic() < self._next or not self._run:
            return
        self._next = time.monotonic() + STEP_SECONDS
        self._try("steps", lambda: self._log({f"steps/{name}": value for name, value in values.items()}, step))

    def evaluation(self, lines: list[dict[str, Any]]) -> None:
        self._lines = lines

        def send() -> None:
            if not self._run:
                self._go_on(_noted_run(self._path))
            for line in lines:
                if line["step"] not in self._sent:
                    numbers = {name: value for name, value in line.items() if name != "step" and value is not None}
                    self._log(numbers, line["step"])
                    self._sent.add(line["step"])

        self._try("evaluations", send)
        self._try("parameters", self._log_parameters)

    def pictures(self, step: int, pngs: Mapping[str, bytes]) -> None:
        def send() -> None:
            with tempfile.TemporaryDirectory() as folder:
                for name, png in pngs.items():
                    path = Path(folder, f"step-{step:09d}-{name.replace('/', '-')}.png")
                    path.write_bytes(png)
                    self._client.log_artifact(self._run, str(path), "pictures")

        if self._run:
            self._try("pictures", send)

    def close(self, finished: bool) -> None:
        self._failed = dict.fromkeys(self._failed, 0.0)  # the last time to send what failed a moment ago
        self.evaluation(self._lines)
        if self._run:
            self._try("the end", lambda: self._client.set_terminated(self._run, "FINISHED" if finished else "FAILED"))

    def _create(self) -> None:
        """A new run on the server, noted in the working folder."""
        existing = self._client.get_experiment_by_name(self._job.name)
        experiment = existing.experiment_id if existing else self._client.create_experiment(self._job.name)
        workdir = self._job.train.workdir
        name = workdir.rstrip("/").rsplit("/", 1)[-1]
        run = self._client.create_run(experiment, run_name=name, tags={"workdir": workdir}).info.run_id
        storage.write_text(self._path, json.dumps({"run_id": run}) + "\n")  # at once, or the next start makes another
        self._run, self._has_parameters = run, False

    def _go_on(self, run_id: str) -> None:
        """With the run of an earlier start; with a new one if that was removed."""
        from mlflow.exceptions import MlflowException

        try:
            removed = self._client.get_run(run_id).info.lifecycle_stage == "deleted"
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            removed = True
        if removed:
            self._create()
            return
        self._client.update_run(run_id, "RUNNING")
        logged = {metric.step for metric in self._client.get_metric_history(run_id, "epoch")}
        self._sent = {step for step in logged if step <= self._begins}  # it may have gone back to a step before others
        self._run = run_id

    def _log_parameters(self) -> None:
        """Sends those that the server does not have: none can be changed."""
        if not self._run or self._has_parameters:
            return
        known = self._client.get_run(self._run).data.params
        settings = flat(self._job.train.model_dump(mode="json"))
        params = [self._param(key, value[:500]) for key, value in settings.items() if key not in known]
        for at in range(0, len(params), AT_A_TIME["params"]):
            self._client.log_batch(self._run, params=params[at : at + AT_A_TIME["params"]])
        self._has_parameters = True

    def _log(self, values: Mapping[str, float], step: int) -> None:
        milliseconds = int(time.time() * 1000)
        metrics = [self._metric(name, value, milliseconds, step) for name, value in values.items()]
        for at in range(0, len(metrics), AT_A_TIME["metrics"]):
            self._client.log_batch(self._run, metrics=metrics[at : at + AT_A_TIME["metrics"]])

    def _try(self, action: str, send: Callable[[], None]) -> None:
        """Sends something unless that failed a moment ago; the first failure of its kind is told."""
        if time.monotonic() < self._failed.get(action, 0.0):
            return
        try:
            send()
        except Exception as error:  # whatever it is: metrics.jsonl has all of it
            if action not in self._failed:
                note(f"mlflow: {action}: {_first_line(error)}; going on, it is tried again later")
            self._failed[action] = time.monotonic() + TRY_AGAIN_SECONDS


def check_server(names: RunLayout, anew: bool) -> None:
    """Asks the server for a word, where a training run begins: before anything of an earlier one is removed.

    Raises:
      UserError: if it does not answer.
    """
    if anew or not _noted_run(names.mlflow):
        with _reached():
            _client().search_experiments(max_results=1)


def _client() -> Any:
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    import mlflow

    return mlflow.MlflowClient(address(os.environ))


def _noted_run(path: str) -> str:
    """The run that the working folder names; empty where it names none."""
    try:
        return json.loads(storage.read_text(path))["run_id"]
    except FileNotFoundError:
        return ""


@contextmanager
def _reached() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise UserError(f"train.writers: mlflow: {_first_line(error)}") from error


def flat(section: Mapping[str, Any]) -> dict[str, str]:
    """The keys of a section as `optimizer.learning_rate`, with what MLflow allows in them; its values as text."""
    return {
        re.sub(r"[^\w.\- :/]", "_", key): value if isinstance(value, str) else json.dumps(value)
        for key, value in leaves(section)
        if value is not None
    }


def _first_line(error: Exception) -> str:
    """Its first line, without what may be secret in an address."""
    return re.sub(r"\?\S*", "", re.sub(r"//\S*@", "//", str(error).partition("\n")[0]))
