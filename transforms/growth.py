"""A run on a dataset that grows: what it takes over, and how that and what it prepares become one dataset."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.growth import files_of_runs
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.dataset.manifest import Counts, Grows, Increment, Manifest
from beamfeed.contract.dataset.raw_values import RawValues, read_raw_values
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import FileStat
from beamfeed.contract.text import counted
from beamfeed.transforms.fleet import Fleet
from beamfeed.transforms.known_assets import read_known
from beamfeed.transforms.records.targets import TargetTally
from beamfeed.transforms.sources.base import Source
from beamfeed.transforms.sources.descriptors import Statistics
from beamfeed.transforms.statistics.as_json import from_json, to_json

Targets = Mapping[SplitName, Mapping[str, TargetTally]]


@dataclass(frozen=True)
class Learned:
    """What later runs need of those before.

    Attributes:
      statistics: of the files of the first run.
      targets: of all records, by split and field.
      notes: by the data folder of a run, what it left out or changed on the way, a line each; of kinds whose runs are
        prepared again as a whole.
      rows: of all files, where they are numbered through.
    """

    statistics: Statistics
    targets: Targets
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rows: int = 0

    def text(self) -> str:
        """As it is kept in the data folder."""
        targets = {split: to_json(dict(fields)) for split, fields in self.targets.items()}
        written = {"statistics": to_json(self.statistics), "targets": targets, "notes": self.notes, "rows": self.rows}
        return json.dumps(written) + "\n"

    @classmethod
    def read(cls, path: str) -> "Learned":
        """What `text` gave.

        Raises:
          UserError: if it is not there, or damaged.
        """
        try:
            written = json.loads(storage.read_text(path))
            targets: Any = {split: from_json(fields) for split, fields in written["targets"].items()}
            return cls(from_json(written["statistics"]), targets, written["notes"], written["rows"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, ImportError) as error:
            raise UserError(
                f"{path}: cannot be read ({error}), so nothing can be added to the dataset; --refit prepares all again"
            ) from None


@dataclass(frozen=True)
class Growth:
    """How a run goes on from the dataset that is there.

    Attributes:
      job: the fingerprint of the job; empty where its dataset does not grow.
      published: the dataset whose statistics and transform graph are taken over, without its shards, as it goes to all
        workers; None where they are made anew.
      added_to: where its shards stay and the run adds to them, the path of its manifest, with the lists of shards.
      goes_back: whether it is the dataset as it was before its last run, which is done again.
      replaced: names of its assets that are prepared again, so that none of its records of them stay.
      replaced_files: how many of its files are theirs.
      redone: data folders of its runs whose files are prepared again, so that none of their shards stays.
      gone: its files that are not there now, and took nothing with them.
      goes_on: whether assets of it may go on in new files.
      is_mixed: whether a file may hold any asset.
      why: why more than new files is prepared, in words; empty where no more is to be said.
    """

    job: str = ""
    published: Manifest | None = field(default=None, repr=False)
    added_to: str = ""
    goes_back: bool = False
    replaced: frozenset[str] = frozenset()
    replaced_files: int = 0
    redone: frozenset[str] = frozenset()
    gone: tuple[FileStat, ...] = field(default=(), repr=False)
    goes_on: bool = False
    is_mixed: bool = False
    why: str = ""

    @property
    def adds(self) -> bool:
        """Whether the run adds to a dataset, whose shards stay."""
        return bool(self.added_to)

    @property
    def grows(self) -> Grows | None:
        """By what later runs know the dataset that is taken over."""
        return None if self.published is None else self.published.grows

    def before(self, output: str) -> DataLayout:
        """The names of the data folder that is taken over."""
        assert self.published is not None
        return self.published.data_layout(output)

    def describe(self, files: int) -> str:
        """What the run does, in words."""
        if not self.adds:
            return f"all files are prepared again, with the statistics of the first run, as {self.why}"
        again = "the last run is done" if self.goes_back else ""
        for names, noun, done in ((self.redone, "run", "done"), (self.replaced, "asset", "prepared")):
            if names and not again:
                again = f"{counted(len(names), noun)} {'is' if len(names) == 1 else 'are'} {done}"
        line = f"adding {counted(files, 'new file')} to the dataset"
        if again:
            line = f"{again} again, as {self.why}: {counted(files, 'file')}"
        line += ", with the statistics of its first run"
        return line + "; where assets go on, their last files are read again" * self.goes_on

    def reading(self, job: Job) -> Job:
        """The job by which files are read: with the classes of labels that the dataset has."""
        if self.published is None:
            return job
        classes = {field.name: list(field.classes) for field in self.published.fields if field.classes}
        labels = [
            label.model_copy(update={"classes": classes[label.name]}) if label.classes == "auto" else label
            for label in job.label
        ]
        return job.model_copy(update={"label": labels, "source": job.source.with_classes(classes)})

    def rejects(self, output: str, was_short: Collection[str]) -> str:
        """What was set aside of the dataset that is added to, a line each, but for assets that are prepared again."""
        gone = self.replaced.union(was_short)
        return "".join(line for line, reject in self._rejects(output) if reject["asset"] not in gone)

    def _rejects(self, output: str) -> list[tuple[str, dict[str, str | None]]]:
        """What was set aside in runs that stay, each with its line."""
        if not self.adds:
            return []
        try:
            text = storage.read_text(self.before(output).rejects)
        except FileNotFoundError:
            return []
        gone = files_of_runs(self.before(output), self.redone) if self.redone else ()
        read = [(line, json.loads(line)) for line in text.splitlines(keepends=True)]
        return [(line, reject) for line, reject in read if reject["file"] not in gone]

    def counts(self, output: str, was_short: Collection[str]) -> Counts:
        """Those of the dataset that is added to, but for assets that are prepared again.

        Args:
          output: of the job.
          was_short: names of those that were set aside for too few rows.
        """
        assert self.published is not None
        counts, again = self.published.counts, self.replaced.union(was_short)
        for run in self._redone_runs():
            counts -= run
        if not again:
            return counts
        table = read_known(self.before(output).assets)
        ours = set(table["asset"].filter(table["set_aside"]).to_pylist())
        rejects = [reject for _, reject in self._rejects(output)]
        files = {reject["file"] for reject in rejects if reject["asset"] in ours & again}
        files -= {reject["file"] for reject in rejects if reject["asset"] in {None, *(ours - again)}}
        gone = table.filter(pc.is_in(table["asset"], pa.array(sorted(again))))
        return counts - Counts(
            files=self.replaced_files,
            assets=len(gone),
            rejected_assets=len(ours & again),
            rejected_files=len(files),
            rows_read=pc.sum(gone["rows"]).as_py() or 0,
            rejected_rows=pc.sum(gone["rejected_rows"]).as_py() or 0,
        )

    def assets(self, output: str) -> dict[SplitName, int]:
        """By split, those of the dataset that is added to with something in it, but for assets prepared again."""
        assert self.published is not None
        counts = {name: info.assets for name, info in self.published.splits.items()}
        for run in self._redone_runs():
            counts = {name: counts[name] - number for name, number in zip(SPLITS, run.in_splits, strict=True)}
        if self.replaced:
            table = read_known(self.before(output).assets)
            gone = table.filter(pc.is_in(table["asset"], pa.array(sorted(self.replaced))))
            for row in gone["splits"].to_pylist():
                counts |= {name: counts[name] - 1 for name in row}
        return counts

    def _redone_runs(self) -> list[Increment]:
        assert self.published is not None
        return [run for run in self.published.increments if run.data in self.redone]

    def whole_fleet(self, fleet: Fleet, output: str, was_short: Collection[str]) -> Fleet:
        """The numbers of the dataset as it will be; arguments as of `counts`, and those of the run alone."""
        if not self.adds:
            return fleet
        nameless = {reject["file"] for _, reject in self._rejects(output) if reject["asset"] is None}
        return Fleet(fleet.counts + self.counts(output, was_short), fleet.nameless_files + len(nameless))

    def check(self, source: Source, statistics: Statistics) -> None:
        """Raises UserError where the files give other fields than the dataset has."""
        assert self.published is not None
        output = source.job.output.path
        raw = read_raw_values(self.before(output).raw_values)
        now, then = source.fields(statistics), self.published.fields
        if now == then and source.raw_values == raw:
            return
        raise UserError(
            f"output.grow: with the new files, records would be others than in {output}: {_difference(now, then)}"
            f"{_raw_difference(source.raw_values, raw)}; make the files alike, or prepare all again with --refit"
        )


def _difference(now: Sequence[Field], then: Sequence[Field]) -> str:
    """The first field that differs, and in what."""
    if [field.name for field in now] != [field.name for field in then]:
        return f"fields {', '.join(field.name for field in now)}, not {', '.join(field.name for field in then)}"
    pairs = zip((field.model_dump() for field in now), (field.model_dump() for field in then), strict=True)
    differ = (
        f"{a['name']} has {key} {_few(a[key])}, not {_few(b[key])}" for a, b in pairs for key in a if a[key] != b[key]
    )
    return next(differ, "")


def _raw_difference(now: RawValues | None, then: RawValues | None) -> str:
    """The first column that is read in another way."""
    before, after = (raw.columns if raw is not None else {} for raw in (then, now))
    differ = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return f" column {differ[0]} has values of another type than at first" if differ else ""


def _few(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 100 else f"{text[:99]}…"


NEW = Growth()  # of a dataset that does not grow


def without_shards(manifest: Manifest) -> Manifest:
    """The manifest with all but the lists of shards."""
    splits = {name: info.model_copy(update={"shards": []}) for name, info in manifest.splits.items()}
    return manifest.model_copy(update={"splits": splits})
