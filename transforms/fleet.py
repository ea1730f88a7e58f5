"""The fleet as a whole, in a few numbers: which assets there are, how they fall into splits, what is set aside."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.output import Limits
from beamfeed.contract.config.split import SPLITS, Split
from beamfeed.contract.dataset.limits import over_limits
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.rejects import Reject, to_jsonl
from beamfeed.transforms.splits import check_filled, first_names


def keep_names(sizes: Mapping[str, int], names: Sequence[str], split: Split, most: int | None) -> frozenset[str] | None:
    """The names of the assets that take part, with source.max_assets; None where all do.

    Args:
      sizes: how many assets each split gets, with by: asset.
      names: of all assets, or of the first ones of each split.
      split: of the job.
      most: source.max_assets.

    Raises:
      UserError: if a split gets no asset.
    """
    if most is not None:
        return frozenset(first_names(names, split, most))
    if split.by == "asset" and names:
        check_filled({name: sizes.get(name, 0) for name in SPLITS}, sorted(names), split)
    return None


@dataclass(frozen=True)
class Fleet:
    """The outcome of checking in numbers.

    Attributes:
      files: listed.
      accepted: assets that go on.
      rows: of these, and of assets of which all rows were set aside by themselves.
      rejected_assets: set aside.
      rejected_files: of which something was set aside.
      nameless_files: set aside before they could tell their assets.
      rejected_rows: of these rows, set aside by themselves.
    """

    files: int
    accepted: int
    rows: int
    rejected_assets: int
    rejected_files: int
    nameless_files: int
    rejected_rows: int = 0

    @property
    def assets(self) -> int:
        """How many assets were found."""
        return self.accepted + self.rejected_assets

    @classmethod
    def of(cls, files: int, accepted: int, rows: int, rejects: Iterable[Reject], rejected_rows: int = 0) -> "Fleet":
        """The numbers of a fleet with these rejects."""
        rejects = [reject for reject in rejects if not reject.of_row]
        return cls(
            files=files,
            accepted=accepted,
            rows=rows,
            rejected_assets=len({reject.asset for reject in rejects if reject.asset is not None}),
            rejected_files=len({reject.file for reject in rejects}),
            nameless_files=len({reject.file for reject in rejects if reject.asset is None}),
            rejected_rows=rejected_rows,
        )

    def over(self, limits: Limits) -> str | None:
        """Which limit the rejects are over, if one."""
        return over_limits(
            limits,
            assets=self.assets,
            rejected_assets=self.rejected_assets,
            files=self.files,
            nameless_files=self.nameless_files,
            rows=self.rows,
            rejected_rows=self.rejected_rows,
        )


def check_limits(fleet: Fleet, rejects: Sequence[Reject], limits: Limits, path: str | None) -> None:
    """Writes the rejects, and stops the job if they are too many, or nothing is left.

    Args:
      fleet: with these rejects.
      rejects: what was set aside.
      limits: of the job.
      path: of the file for rejects; None writes none.

    Raises:
      JobFailed
    """
    if rejects and path is not None:
        storage.write_text(path, to_jsonl(rejects))
    over = fleet.over(limits)
    if over is None and fleet.accepted:
        return
    first = min(rejects, key=lambda r: (r.asset or "", r.file), default=None)
    such_as = f"; such as {first.file}: {first.place}: {first.reason}" if first else ""
    see = f", see {path}" if rejects and path is not None else ""
    raise JobFailed(f"{over or 'no asset can be used'}; {fleet.accepted} are left; nothing was published{see}{such_as}")


def knows_values(job: Job, fleet: Fleet) -> bool:
    """Whether all rows were read, so that a value of split.column which none of them has is the user's mistake."""
    return job.split.by == "column" and job.source.max_assets is None and not fleet.rejected_files
