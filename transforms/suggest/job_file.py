"""From a folder of files to the text of a job file."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from beamfeed.contract.config.document import parse_document
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.load import parse_job
from beamfeed.contract.config.sources.image import ImageSource
from beamfeed.contract.errors import UserError
from beamfeed.contract.text import counted
from beamfeed.transforms.suggest.array_groups import SUFFIXES
from beamfeed.transforms.suggest.arrays import ArrayFolder, draft_arrays, find_arrays
from beamfeed.transforms.suggest.columns import Column, describe, why_fillers
from beamfeed.transforms.suggest.draft import Key, comment, printable, render
from beamfeed.transforms.suggest.images import draft_images, find_images
from beamfeed.transforms.suggest.options import Options
from beamfeed.transforms.suggest.sample import Sample, take_sample, trailing_rows, with_footer
from beamfeed.transforms.suggest.series import Series, draft_series, find_series, shape_series
from beamfeed.transforms.suggest.shared import choose_places
from beamfeed.transforms.suggest.table import Table, draft_table, find_table
from beamfeed.transforms.suggest.times import Time, find_times
from beamfeed.transforms.suggest.wide import find_wide
from beamfeed.transforms.suggest.windowing import LONGEST


@dataclass(frozen=True)
class Suggestion:
    """A job file for some files.

    Attributes:
      folder: that was looked at.
      name: of the job file.
      body: its sections.
      guessed: what they were guessed from.
      about: what was found, in a few words.
      trains: whether the job trains; else it only preprocesses.
      length: of the windows; None where there are none.
      problems: why it cannot run as it is; empty where it can; None where that was not tried.
    """

    folder: str
    name: str
    body: str
    guessed: str
    about: str
    trains: bool
    length: int | None = None
    problems: Sequence[str] | None = None

    @property
    def command(self) -> str:
        """What runs it."""
        return f"beamfeed {'run' if self.trains else 'preprocess'} {shlex.quote(self.name)}"

    @property
    def text(self) -> str:
        """Of the job file."""
        works = "`beamfeed check` says whether it runs as it is. "
        if self.problems is not None:
            works = "" if self.problems else "It runs as it is. "
        note = f"Its values were guessed from {self.guessed}; review them, and change what you know better."
        lines = [f"A first job file for {self.folder}, written by `beamfeed init`.", "", f"  {self.command}", ""]
        if self.problems:
            lines += ["It does not run as it is:", *(f"  {line}" for line in self.problems), ""]
        head = [f"# {'  ' if line.startswith('  ') else ''}{printable(line)}".rstrip() for line in lines]
        notes = comment(f"{works}{note} `beamfeed schema` describes every key.")
        return "\n".join([*head, *notes, "", self.body])

    @property
    def to_try(self) -> Job:
        """The job with a category in the place of each text, whose words TensorFlow would count."""
        job: dict[str, Any] = parse_document(self.text, self.name).data
        features = job.get("features", {})
        texts = {name: value for name, value in features.items() if isinstance(value, dict) and value["type"] == "text"}
        if texts:
            features |= {
                name: {"type": "categorical", "column": text.get("column", name), "hash": 2}
                for name, text in texts.items()
            }
            if "train" in job:
                job["train"]["model"] = {"name": "tabular"}
        return Job.model_validate(job)


def suggest(
    folder: str, name: str = "job.yaml", options: Options = Options(), longest: int = LONGEST, least: int = 1
) -> Suggestion:
    """Writes a job file from a sample of the files of a folder.

    Args:
      folder: a folder, a glob or a file, local or gs://
      name: of the job file, for its first lines.
      options: what the user says of the files.
      longest: rows of a window, at most.
      least: rows or images of a class, which is left out where it has fewer.

    Raises:
      UserError: if there are no such files, they cannot be read together, or are not what the user says.
    """
    places = choose_places(folder)
    images = find_images(folder, surely=options.kind == "image") if options.kind in (None, "image") else None
    arrays = find_arrays(folder, options) if images is None and options.kind in (None, "array") else None
    length = None
    if images is not None:
        options.check_images()
        draft, trains = draft_images(images, folder, places, least), images.trains
        guessed = "names of files, and the sizes of some"
        label = "label folder" if images.labelled else "no label found"
        about = f"images: {counted(len(images.files), 'file')}, {label}" + ("" if trains else "; it only preprocesses")
    elif options.kind == "image":
        raise UserError(f"--kind image: {folder} holds no images (suffixes: {' '.join(ImageSource.suffixes)})")
    elif arrays is not None:
        draft, trains = draft_arrays(arrays, places), arrays.trains
        guessed = "the heads of files, and the values of what may be classes"
        about = _about_arrays(arrays)
    elif options.kind == "array":
        raise UserError(f"--kind array: {folder} holds no arrays (suffixes: {' '.join(SUFFIXES)})")
    else:
        sample = take_sample(folder)
        options.check(list(sample.types))
        sample, content = _look(sample, options)
        guessed = f"the beginnings of {len(sample.looks)} of {len(sample.files):,} files"
        about = _about(sample, content)
        if isinstance(content, Series):
            if content.outlook is not None and longest < LONGEST:
                content = replace(content, outlook=content.outlook.within(longest))
            shape = shape_series(sample, content, longest)
            draft, trains, length = draft_series(sample, content, shape, places), True, shape.length
        else:
            draft, trains = draft_table(sample, content, places, least), content.label is not None
    body = "\n".join(render([part]) for part in [Key("name", places.name), *draft])
    suggestion = Suggestion(folder, name, body, guessed, about, trains, length)
    parse_job(suggestion.text, name=name)  # what is written must be a job file
    return suggestion


def _look(sample: Sample, options: Options) -> tuple[Sample, Series | Table]:
    """What the files hold; and the sample without lines at the end of texts that are no rows."""
    wide = find_wide(sample, options)
    if wide is not None:
        rows, asked, time = wide
        series = find_series(rows, describe(rows.batches), [time], asked)
        if series is not None:
            why = series.assets.why if options.asset else "a row holds the series of one"
            return rows, replace(series, assets=replace(series.assets, why=why))
    columns, times, series = _rows_of(sample, options)
    lines = trailing_rows(sample, None if series is None or series.time is None else series.time.valid)
    if lines:
        sample = with_footer(sample, lines)
        columns, times, series = _rows_of(sample, options)
    sample = replace(sample, remarks=(*sample.remarks, *why_fillers(columns.values())))
    return sample, find_table(sample, columns, times, options) if series is None else series


def _rows_of(sample: Sample, options: Options) -> tuple[dict[str, Column], list[Time], Series | None]:
    """The columns, those that may be the time, and what makes series of the rows, if they are some."""
    columns = describe([batch.select(list(sample.types)) for batch in sample.batches])
    times = find_times(sample, columns, options)
    return columns, times, find_series(sample, columns, times, options)


def _about_arrays(arrays: ArrayFolder) -> str:
    inputs = counted(len(arrays.groups["inputs"]), "input")
    outputs = ", ".join(group.name for group in arrays.groups["outputs"])
    label = f"to learn {outputs}" if outputs else "no label is sure, so it only preprocesses"
    return f"arrays: {counted(len(arrays.files), 'file')}, {inputs}, {label}"


def _about(sample: Sample, content: Series | Table) -> str:
    files, learned = counted(len(sample.files), "file"), counted(len(content.features), "column")
    if isinstance(content, Series):
        more = "" if content.assets.every else " or more"
        number = len(content.assets.names)
        return f"series: {files}, {number:,}{more} asset{'s' if number > 1 else ''}, {learned} to learn from"
    label = "no label wanted" if content.declined else "no label is sure"
    label = f"{label}, so it only preprocesses" if content.label is None else f"label {content.label.name}"
    return f"a table: {files}, {learned} to learn from, {label}"
