"""What a sweep is to do, and its space: keys of the job, and the values that each may have. Pure; no Optuna."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.load import JobFile
from beamfeed.contract.config.section import kinds_of
from beamfeed.contract.config.sweep import Range, Sweep
from beamfeed.contract.config.task import goals_of
from beamfeed.contract.config.train import Train
from beamfeed.contract.config.wanted import annotation_at
from beamfeed.contract.dataset.fingerprint import set_keys
from beamfeed.contract.errors import UserError
from beamfeed.launcher.job import job_model

TRAIN = "train"
TRIALS = 20  # where the job does not say how many
DIGITS = 12  # of a value that is reached by steps: 0.1 + 2 * 0.1 is 0.3
# Keys of `train` that are not to be tried, and why.
FIXED = {
    "workdir": "each trial has a folder of its own",
    "watch": "it says what is best, so trials with another could not be compared",
    "floor": "trials are trained without one",
}
# Keys of a task that do not enter its loss.
NO_LOSS: dict[str, Any] = {"metrics": True, "threshold": True, "outputs": {"metrics": True, "threshold": True}}
Params = dict[str, Any]  # by key, as Optuna keeps them: a number, text, true, false or null


@dataclass(frozen=True)
class Dimension:
    """A key and its values.

    Attributes:
      key: with dots, such as `train.optimizer.learning_rate`.
      choices: the values, of a list.
      range: where they are drawn from, otherwise.
      whole: whether only whole numbers of the range are.
    """

    key: str
    choices: tuple[Any, ...] = ()
    range: Range | None = None
    whole: bool = False

    def names(self) -> list[Any]:
        """The choices as Optuna keeps them: a list or a mapping as JSON."""
        return [json.dumps(choice) if isinstance(choice, list | dict) else choice for choice in self.choices]

    def value(self, name: Any) -> Any:
        """The value that stands in the job for what Optuna keeps."""
        return name if self.range is not None else self.choices[self.names().index(name)]

    @property
    def points(self) -> int:
        """How many values there are, of a list or of a range with a step."""
        if self.range is None:
            return len(self.choices)
        return math.floor(round((self.range.high - self.range.low) / (self.range.step or 1), DIGITS)) + 1

    def point(self, number: int) -> Any:
        """One of these, from 0, as Optuna keeps it."""
        if self.range is None:
            return self.names()[number]
        value = self.range.low + number * (self.range.step or 1)
        return value if self.whole else round(float(value), DIGITS)

    def suggest(self, trial: Any) -> Any:
        """What a trial of Optuna has, or draws, as Optuna keeps it."""
        if self.range is None:
            return trial.suggest_categorical(self.key, self.names())
        low, high, step, log = self.range.low, self.range.high, self.range.step, self.range.log
        if self.whole:
            return trial.suggest_int(self.key, low, high, step=step or 1, log=log)
        return trial.suggest_float(self.key, low, high, step=step, log=log)


@dataclass(frozen=True)
class Search:
    """What a sweep is to do.

    Attributes:
      file: its job file.
      job: made of it.
      sweep: its section.
      dimensions: the space.
      folder: of the sweep, on a disk.
      parallel: how many trials go on at once.
      data: the fingerprint of the dataset, once it is there.
    """

    file: JobFile
    job: Job
    sweep: Sweep
    dimensions: list[Dimension]
    folder: str
    parallel: int = 1
    data: str = ""

    @property
    def trials(self) -> int:
        """How many there are to be in all."""
        if self.sweep.sampler != "grid":
            return self.sweep.trials or TRIALS
        points = grid_size(self.dimensions)
        return min(points, self.sweep.trials or points)

    def trial_folder(self, number: int) -> str:
        """The working folder of a trial."""
        return storage.join(self.folder, f"trial-{number:04d}")

    def trial_job(self, number: int, values: Mapping[str, Any], **more: Any) -> Job:
        """The job of a trial.

        Raises:
          UserError: if its values do not go together.
        """
        place = f"{self.file.place('sweep', 'space')}: sweep.space"
        values = {**values, "train.workdir": self.trial_folder(number), **more}
        return self.file.job(job_model(sourced=False), values, place)


def grid_size(dimensions: Sequence[Dimension]) -> int:
    """How many combinations there are."""
    return math.prod(dimension.points for dimension in dimensions)


def grid_point(dimensions: Sequence[Dimension], number: int) -> Params:
    """A combination, by its number from 0; the last key changes fastest."""
    params: Params = {}
    for dimension in reversed(dimensions):
        number, at = divmod(number, dimension.points)
        params[dimension.key] = dimension.point(at)
    return {dimension.key: params[dimension.key] for dimension in dimensions}


def job_values(dimensions: Sequence[Dimension], params: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a trial, by key, as the job has them."""
    return {dimension.key: dimension.value(params[dimension.key]) for dimension in dimensions}


def read_space(file: JobFile, sweep: Sweep) -> list[Dimension]:
    """The space, checked: every value of a list, and both ends of a range, must make a job by itself.

    Raises:
      UserError: with a line for each key that is wrong.
    """
    mistakes: list[str] = []
    dimensions = []
    for key, choices in sweep.space.items():
        place = f"{file.place('sweep', 'space', key)}: sweep.space"
        try:
            if above := [other for other in sweep.space if key.startswith(f"{other}.") and other != TRAIN]:
                raise UserError(f"{place}: {key}: cannot be tried beside {above[0]}, whose values hold it")
            dimensions.append(_read_key(file, key, choices, place))
        except UserError as error:
            mistakes.append(str(error))
    if mistakes:
        raise UserError("\n".join(dict.fromkeys(mistakes)))
    return dimensions


def _read_key(file: JobFile, key: str, choices: Range | list[Any], place: str) -> Dimension:
    section, _, name = key.partition(".")
    if section != TRAIN or not name:
        raise UserError(f"{place}: {key}: is no key of train; trials share one dataset, and differ in how they train")
    if why := FIXED.get(name.partition(".")[0]):
        raise UserError(f"{place}: {key}: cannot be tried: {why}")
    model = job_model(sourced=False)
    base = file.job(model).train

    def check(value: Any) -> Job:
        job = file.job(model, {key: value}, place)
        if base is not None and job.train is not None and (why := _why_other_metric(base, job.train)):
            raise UserError(f"{place}: {key}: cannot be tried: {why}")
        return job

    if isinstance(choices, list):
        for choice in choices:
            check(choice)
        return Dimension(key, tuple(choices))
    whole = not isinstance(choices.low, float) and not isinstance(choices.high, float)
    if whole:
        job = check(choices.low)
        data = job.model_dump(mode="json", by_alias=True, exclude_unset=True)
        whole = float not in kinds_of(annotation_at(tuple(key.split(".")), model, data))
    low, high = (choices.low, choices.high) if whole else (float(choices.low), float(choices.high))
    for end in (low, high):
        check(end)
    if whole and isinstance(choices.step, float):
        raise UserError(f"{place}: {key}: step is {choices.step}, it must be a whole number")
    return Dimension(key, range=choices.model_copy(update={"low": low, "high": high}), whole=whole)


def _why_other_metric(base: Train, tried: Train) -> str:
    """Why the metric of a trial is another number than that of the job; empty where the two can be compared."""
    if tried.feed.where != base.feed.where:
        return "each trial must be measured on the same data"
    losses = {"loss", *(f"{name}_loss" for name in goals_of(base.task))}
    if base.watch.metric in losses and set_keys(tried.task, NO_LOSS) != set_keys(base.task, NO_LOSS):
        return (
            f"it changes what {base.watch.metric} means, by which trials are compared; set train.watch.metric to a "
            "metric that does not depend on it"
        )
    return ""
