"""The whole job file: its sections, one strict model each. `beamfeed.contract.config.load` reads it from YAML.

Every model forbids unknown keys, is frozen, and says in each field's description
what `beamfeed schema` tells an editor.
"""

from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import Field, model_validator

from beamfeed.contract import storage
from beamfeed.contract.config.features import AnyFeature, own_functions
from beamfeed.contract.config.label import Label
from beamfeed.contract.config.launch import Launch
from beamfeed.contract.config.output import OUTPUT_KEYS, Limits, Output
from beamfeed.contract.config.prepare import STEPS, Prepare, Windows
from beamfeed.contract.config.section import InWords, OneOrMore, Section, short_for
from beamfeed.contract.config.sources import Source
from beamfeed.contract.config.sources.base import Tells
from beamfeed.contract.config.sources.none import NoSource
from beamfeed.contract.config.split import SPLIT_KEYS, Split
from beamfeed.contract.config.sweep import Sweep
from beamfeed.contract.config.task import Classify, Forecast, Regress, Several, goals_of
from beamfeed.contract.config.train import Train
from beamfeed.contract.errors import near_miss


class Job(Section):
    """A whole job: from raw files to a trained model."""

    example: ClassVar[str] = "{name: fleet, source: ..., windows: ..., output: ...}"

    name: Annotated[
        str,
        Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_.-]*$"),
        InWords("letters, digits, _ . and -, with a letter or a digit first, such as fleet-2"),
    ] = Field(description="Names the job in logs and on runners.")
    source: Source = Field(description="Which files to read, and what they hold: one section for each kind.")
    prepare: Prepare = Prepare()
    windows: Windows = Field(
        default=Windows(length=1), description="Of series; for other kinds of source a window is one row."
    )
    label: Annotated[list[Label], OneOrMore()] = Field(
        default=[], description="What a model predicts for a window: one label, or a list of them."
    )
    features: Annotated[dict[str, AnyFeature], short_for("type", str)] = Field(
        default={}, description="Of tables: what becomes of the columns, by their names or globs."
    )
    split: Split = Field(default_factory=Split)  # each job's own: it is fitted to the source
    output: Output
    limits: Limits = Limits()
    train: Train | None = Field(default=None, description="Left out where the job is only preprocessed.")
    sweep: Sweep | None = Field(default=None, description="What `beamfeed sweep` tries; other commands pass it over.")
    launch: Launch = Launch()
    after: list[Literal["predict", "score", "report"]] = Field(
        default=[],
        description="What follows when the model is trained, in this order: predict its dataset, score it, report.",
    )

    @property
    def own_code(self) -> list[tuple[str, str]]:
        """The user's own code that workers run: pairs of the key and `module:name`."""
        return [*((STEPS, step) for step in self.prepare.steps), *own_functions(self.features).items()]

    @model_validator(mode="after")
    def _sections_fit_the_source(self) -> "Job":
        source, used = self.source, self.source.sections
        of = "a job without a source" if isinstance(source, NoSource) else f"source.kind: {source.kind}"
        for name in ("prepare", "windows", "label", "features"):
            is_set = name in self.model_fields_set and getattr(self, name) not in ({}, [])
            if is_set and name not in used:
                raise ValueError(f"{name}: does not go with {of}")
            if used.get(name) and not is_set:
                raise ValueError(f"{name}: is missing")
        if "by" not in self.split.model_fields_set and self.split.by not in source.split_by:
            object.__setattr__(self.split, "by", source.split_by[0])
        wrong = [f"split.{key}" for key in SPLIT_KEYS if key not in source.split_keys and getattr(self.split, key)]
        wrong += [f"output.{key}" for key in OUTPUT_KEYS if key not in source.output_keys and getattr(self.output, key)]
        if wrong:
            raise ValueError(f"{wrong[0]}: does not go with {of}")
        if self.split.by not in source.split_by:
            allowed = ", ".join(source.split_by)
            raise ValueError(f"split.by: {self.split.by} does not go with {of} (allowed: {allowed})")
        return self

    @model_validator(mode="after")
    def _may_grow(self) -> "Job":
        if not self.output.grow:
            has_source = not isinstance(self.source, NoSource)
            needs_it = {"output.keep": self.output.keep, "train.on": has_source and self.train and self.train.on}
            for key, value in needs_it.items():
                if value:
                    raise ValueError(f"{key}: is for a dataset that grows, with output.grow: true")
            return self
        against = {
            "source.max_assets": self.source.max_assets is not None,
            "split.stratify": self.split.stratify,
            "prepare.scale.per: asset": self.prepare.scale.per == "asset",
            **dict.fromkeys(own_functions(self.features), True),
        }
        if wrong := [key for key, is_set in against.items() if is_set]:
            raise ValueError(f"output.grow: does not go with {wrong[0]}, which needs all files at once")
        return self

    @model_validator(mode="after")
    def _split_fits_the_grid(self) -> "Job":
        if self.split.by == "rows" and self.prepare.resample is not None:
            raise ValueError(
                "split.by: rows does not go with prepare.resample, as a step of the grid would be in two splits; "
                "split by time"
            )
        return self

    @model_validator(mode="after")
    def _labels_fit(self) -> "Job":
        names = [label.name for label in self.label]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"label: two labels have the name {twice[0]!r}; give each its own, as in 'name: fault'")
        of_source = self.source.labels
        if (names or of_source) and self.train is not None and "task" not in self.train.model_fields_set:
            has = "a label" if names else "outputs"
            raise ValueError(
                f"train.task: is missing: the job has {has}, so say whether to "
                "{name: classify}, {name: regress}, {name: forecast} or {name: reconstruct}"
            )
        if ("label" in self.source.sections or of_source) and self.train is not None:
            self._check_targets(self.train)
        return self

    def _check_targets(self, train: Train) -> None:
        """Where labels are the only targets, a task that does not fit them is told before anything is preprocessed."""
        of_job = [
            Tells(label.name, label.role, label.classes is not None, label.ahead is not None) for label in self.label
        ]
        labels = {label.name: label for label in (*of_job, *self.source.labels)}
        for output, goal in goals_of(train.task).items():
            key = f"train.task.outputs.{output}" if isinstance(train.task, Several) else "train.task"
            for end, name, role in (
                ("target", getattr(goal, "target", None), "target"),
                ("sample_weight", goal.sample_weight, "weight"),
            ):
                if name is None:
                    continue
                fits = [label.name for label in labels.values() if label.role == role]
                if name not in fits:
                    have = f"the labels with role {role}: {', '.join(fits)}" if fits else f"no label has role {role}"
                    raise ValueError(f"{key}.{end}: there is no such label: {name!r}{near_miss(name, fits)} ({have})")
            if isinstance(goal, Classify) and not labels[goal.target].has_classes:
                raise ValueError(f"{key}: classify needs classes: give the label {goal.target!r} 'classes: auto'")
            if isinstance(goal, Regress) and labels[goal.target].has_classes:
                raise ValueError(f"{key}: regress needs numbers, the label {goal.target!r} has classes")
            if isinstance(goal, Regress) and labels[goal.target].is_ahead:
                raise ValueError(f"{key}: the label {goal.target!r} has 'ahead', use {{name: forecast}}")
            if isinstance(goal, Forecast) and not labels[goal.target].is_ahead:
                raise ValueError(
                    f"{key}: forecast needs the rows behind a window: give the label {goal.target!r} "
                    "'ahead: {rows: 24}'"
                )

    @model_validator(mode="after")
    def _ahead_fits(self) -> "Job":
        if self.rows_ahead and self.prepare.scale.per == "asset":
            raise ValueError(
                "label.ahead: does not go with prepare.scale.per: asset, as forecasts are in the units of the files; "
                "use per: fleet"
            )
        return self

    @property
    def rows_ahead(self) -> int:
        """Rows behind a window that are forecast."""
        return max((label.rows_ahead for label in self.label), default=0)

    @property
    def frame(self) -> Windows:
        """Where windows are in the rows of records: each with the rows behind it that are forecast."""
        return Windows(length=self.windows.length + self.rows_ahead, stride=self.windows.stride)

    @model_validator(mode="after")
    def _paths_differ(self) -> "Job":
        if self.train is None:
            return self
        data, work = (storage.absolute(path).rstrip("/") for path in (self.output.path, self.train.workdir))
        if data == work:
            raise ValueError(f"output.path and train.workdir are the same folder: {self.output.path}")
        if work.startswith(f"{data}/"):
            raise ValueError(
                f"train.workdir: {self.train.workdir} is inside of output.path, which is {self.output.path} and holds "
                "nothing but the dataset; give a folder beside it"
            )
        return self


AnyJob = TypeVar("AnyJob", bound=Job)


class TrainingJob(Job):
    """A job with a section `train`: what the trainer needs. The dataset may be there without a source."""

    source: Source = Field(default_factory=NoSource, description="May be left out where a dataset is trained on.")
    train: Train
