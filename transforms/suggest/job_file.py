"""From a folder of files to the text of a job file."""

from dataclasses import dataclass

from beamfeed.contract.config.load import parse_job
from beamfeed.transforms.suggest.columns import Column, describe
from beamfeed.transforms.suggest.draft import Key, render
from beamfeed.transforms.suggest.images import ImageFolder, draft_images, find_images
from beamfeed.transforms.suggest.sample import Sample, take_sample, trailing_rows, with_footer
from beamfeed.transforms.suggest.series import Series, draft_series, find_series
from beamfeed.transforms.suggest.shared import Places, choose_places
from beamfeed.transforms.suggest.table import Table, draft_table, find_table


@dataclass(frozen=True)
class Suggestion:
    """A job file for some files.

    Attributes:
      text: of the job file.
      about: what was found, in a few words.
      trains: whether the job trains; else it preprocesses alone.
    """

    text: str
    about: str
    trains: bool


def suggest(folder: str, name: str = "job.yaml") -> Suggestion:
    """Writes a job file that runs as it is, from a sample of the files of a folder.

    Args:
      folder: a folder, a glob or a file, local or gs://
      name: of the job file, for its first lines.

    Raises:
      UserError: if there are no such files, or they cannot be read together.
    """
    places = choose_places(folder)
    images = find_images(folder)
    if images is not None:
        return _of_images(images, places, folder, name)
    sample = take_sample(folder)
    sample, found = _look(sample)
    text = _head(sample, found, places, folder, name)
    draft = draft_series(sample, found, places) if isinstance(found, Series) else draft_table(sample, found, places)
    text += "\n" + "\n".join(render([part]) for part in [Key("name", places.name), *draft])
    parse_job(text, name=name)  # what is written must be a job file
    return Suggestion(text, _about(sample, found), _trains(found))


def _of_images(found: ImageFolder, places: Places, folder: str, name: str) -> Suggestion:
    command = f"beamfeed {'run' if found.trains else 'preprocess'} {name}"
    text = (
        f"# A first job file for {' '.join(folder.split())}, written by `beamfeed init`.\n#\n#   {command}\n#\n"
        "# It runs as it is. What it says was guessed from names of files, and the sizes of some; read it through,\n"
        "# and change what you know better. `beamfeed schema` describes every key.\n"
    )
    text += "\n" + "\n".join(
        render([part]) for part in [Key("name", places.name), *draft_images(found, folder, places)]
    )
    parse_job(text, name=name)
    count, label = len(found.files), "label folder" if found.labelled else "no label found"
    alone = "" if found.trains else "; it preprocesses alone"
    return Suggestion(text, f"images: {count:,} file{'s' if count > 1 else ''}, {label}{alone}", found.trains)


def _look(sample: Sample) -> tuple[Sample, Series | Table]:
    """What the files hold; and the sample without lines at the end of texts that are no rows."""
    columns = _columns(sample)
    found = find_series(sample, columns)
    time = None if found is None else found.time
    lines = trailing_rows(sample, None if time is None else time.valid)
    if lines:
        sample = with_footer(sample, lines)
        columns = _columns(sample)
        found = find_series(sample, columns)
    return sample, find_table(sample, columns) if found is None else found


def _columns(sample: Sample) -> dict[str, Column]:
    return describe([one.table.select(list(sample.types)) for one in sample.tables])


def _trains(found: Series | Table) -> bool:
    return isinstance(found, Series) or found.label is not None


def _head(sample: Sample, found: Series | Table, places: Places, folder: str, name: str) -> str:
    command = f"beamfeed {'run' if _trains(found) else 'preprocess'} {name}"
    looked = f"{len(sample.looks)} of {len(sample.files):,} files"
    return (
        f"# A first job file for {' '.join(folder.split())}, written by `beamfeed init`.\n"
        "#\n"
        f"#   {command}\n"
        "#\n"
        f"# It runs as it is. What it says was guessed from the beginnings of {looked}; read it through,\n"
        "# and change what you know better. `beamfeed schema` describes every key.\n"
    )


def _about(sample: Sample, found: Series | Table) -> str:
    files = f"{len(sample.files):,} file{'s' if len(sample.files) > 1 else ''}"
    if isinstance(found, Series):
        number, columns = len(found.assets.names), len(found.features)
        more = "" if found.assets.every else " or more"
        learned = f"{columns} column{'s' if columns > 1 else ''} to learn from"
        return f"series: {files}, {number:,}{more} asset{'s' if number > 1 else ''}, {learned}"
    label = "no label found, so it preprocesses alone" if found.label is None else f"label {found.label.name}"
    columns = len(found.features)
    return f"a table: {files}, {columns} column{'s' if columns > 1 else ''} to learn from, {label}"
