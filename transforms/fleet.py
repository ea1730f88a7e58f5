"""The fleet as a whole, in a few numbers: which assets there are, how they fall into splits, what is set aside."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.output import Limits
from beamfeed.contract.config.split import SPLITS
from beamfeed.contract.dataset.limits import largest_share, over_limits
from beamfeed.contract.dataset.manifest import Counts
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.rejects import Reject, to_jsonl
from beamfeed.transforms.sources.descriptors import Verdict
from beamfeed.transforms.splits import check_filled, check_values, first_names, split_of_asset

_NAMES = 1000  # of assets, that are kept for a message


@dataclass(frozen=True)
class Names:
    """Names of assets. They add up; some of each split are held, never all of the fleet.

    Attributes:
      counts: by split, with by: asset, how many there are.
      first: likewise, the first ones in order.
      held: so many.
    """

    counts: Counter[str]
    first: Mapping[str, Sequence[str]]
    held: int

    @classmethod
    def of(cls, names: Iterable[str], job: Job) -> "Names":
        """Some names, each once, of a job's assets."""
        by_split: dict[str, list[str]] = defaultdict(list)
        for name in names:
            by_split[split_of_asset(name, job.split) if job.split.by == "asset" else ""].append(name)
        limit = max(_NAMES, job.source.max_assets or 0)
        counts = Counter({split: len(split_names) for split, split_names in by_split.items()})
        return cls(counts, {split: sorted(split_names)[:limit] for split, split_names in by_split.items()}, limit)

    def __add__(self, other: "Names") -> "Names":
        first = {
            split: sorted([*self.first.get(split, ()), *other.first.get(split, ())])[: self.held]
            for split in {**self.first, **other.first}
        }
        return Names(self.counts + other.counts, first, self.held)

    def taking_part(self, job: Job) -> frozenset[str] | None:
        """The names of the assets that take part, with source.max_assets; None where all do.

        Raises:
          UserError: if a split gets no asset.
        """
        names = sorted(name for split_names in self.first.values() for name in split_names)
        if job.source.max_assets is not None:
            return frozenset(first_names(names, job.split, job.source.max_assets))
        if job.split.by == "asset" and names:
            check_filled({name: self.counts[name] for name in SPLITS}, names, job.split)
        return None


@dataclass(frozen=True)
class Fleet:
    """The outcome of checking in numbers.

    Attributes:
      counts: as the manifest has them.
      nameless_files: set aside before they could tell their assets.
    """

    counts: Counts
    nameless_files: int

    @property
    def accepted(self) -> int:
        """How many assets go on."""
        return self.counts.assets - self.counts.rejected_assets

    @classmethod
    def of(
        cls, files: int, rejects: Iterable[Reject], *, accepted: int = 0, rows: int = 0, rejected_rows: int = 0
    ) -> "Fleet":
        """The numbers of a fleet with these rejects; `count_rows` gives the others."""
        rejects = [reject for reject in rejects if not reject.of_row]
        rejected_assets = len({reject.asset for reject in rejects if reject.asset is not None})
        counts = Counts(
            files=files,
            assets=accepted + rejected_assets,
            rejected_assets=rejected_assets,
            rejected_files=len({reject.file for reject in rejects}),
            rows_read=rows,
            rejected_rows=rejected_rows,
        )
        return cls(counts, len({reject.file for reject in rejects if reject.asset is None}))

    def without(self, rejects: Sequence[Reject], empty: Iterable[tuple[Reject, int]]) -> tuple["Fleet", list[Reject]]:
        """The numbers, and the rejects in order, with the assets that gave no window among them.

        Args:
          rejects: what was set aside before anything was written.
          empty: those assets, each with its rows.
        """
        empty = list(empty)
        every = sorted({*rejects, *(reject for reject, _ in empty)}, key=str)
        counts, gone = self.counts, sum(rows for _, rows in empty)
        fleet = Fleet.of(counts.files, every, rows=counts.rows_read - gone, rejected_rows=counts.rejected_rows)
        return replace(fleet, counts=fleet.counts.model_copy(update={"assets": counts.assets})), every

    def over(self, limits: Limits) -> str | None:
        """Which limit the rejects are over, if one."""
        return over_limits(limits, self.counts, self.nameless_files)


class TooManyRejected(JobFailed):
    """More was set aside than the job allows.

    Attributes:
      share: the largest fraction that was set aside.
      noun: of which, such as assets.
      short: whether the first of it is too short for a window.
    """

    def __init__(
        self, message: str, reason: str | None = None, *, share: float = 1, noun: str = "", short: bool = False
    ):
        super().__init__(message, reason)
        self.share, self.noun, self.short = share, noun, short


def count_rows(verdict: Verdict) -> Counter[str]:
    """What a verdict adds to the numbers of a fleet; an asset that goes on was counted before."""
    return Counter(
        accepted=int(verdict.accepted and verdict.asset.known is None),
        rows=verdict.counted_rows,
        rejected_rows=verdict.rejected_rows,
    )


def check_limits(fleet: Fleet, rejects: Sequence[Reject], limits: Limits, path: str | None) -> None:
    """Writes the rejects, and stops the job if they are too many, or nothing is left.

    Args:
      fleet: with these rejects.
      rejects: what was set aside.
      limits: of the job.
      path: of the file for rejects; None writes none.

    Raises:
      TooManyRejected
      JobFailed: if nothing is left.
    """
    ending = ""
    if path is not None:
        ending = "; nothing was published" + (f", see {path}" if rejects else "")
        if rejects:
            storage.write_text(path, to_jsonl(rejects))
    over = fleet.over(limits)
    if over is None and fleet.accepted:
        return
    first = min(rejects, key=lambda r: (r.asset or "", r.file), default=None)
    ending += f"; such as {first.file}: {first.place}: {first.reason}" if first else ""
    message = f"{over or 'no asset can be used'}; {fleet.accepted} are left{ending}"
    if over is None:
        raise JobFailed(message)
    share, noun = largest_share(fleet.counts, fleet.nameless_files)
    raise TooManyRejected(message, share=share, noun=noun, short=first is not None and first.short)


def check_fleet(
    fleet: Fleet, rejects: Sequence[Reject], job: Job, path: str | None, values: Iterable[str] | None
) -> None:
    """As `check_limits`; and refuses lists of `split` with a value of split.column that no row has.

    Args:
      fleet: with these rejects.
      rejects: what was set aside.
      job: whose limits and split it is.
      path: of the file for rejects; None writes none.
      values: of split.column in all rows; None where some were not read.

    Raises:
      JobFailed, UserError
    """
    check_limits(fleet, rejects, job.limits, path)
    if (
        values is not None
        and job.split.by == "column"
        and job.source.max_assets is None
        and not fleet.counts.rejected_files
    ):
        check_values(values, job.split)
