"""Which files are read to see what a job will do: all, or where these are large some; and what these say of all."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from beamfeed.contract.config.split import SPLITS, Split, SplitName
from beamfeed.contract.dataset.manifest import Manifest, Target
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import FileStat
from beamfeed.contract.text import size_text
from beamfeed.transforms.rehearsal import AssetRows
from beamfeed.transforms.sources.base import Source
from beamfeed.transforms.splits import seeded_hash

SAMPLE_BYTES = 256 << 20  # that are read; a fleet of no more is read wholly
FAR_MORE = 4  # times as much as may be read, of an asset that cannot be read in part
LEAST_FILES = 32  # that share these bytes, where files can be read in part


class TooLarge(UserError):
    """The files of a single asset are far more than may be read for a look."""


def choose_assets(
    assets: Mapping[str, Sequence[FileStat]], strata: Mapping[str, str], most: int, most_of_each: int | None = None
) -> set[str]:
    """Some assets, by chance and always the same: at least one, and one of each split that paths tell.

    Args:
      assets: the files of each.
      strata: what the paths of each tell of its split.
      most: bytes that may be read.
      most_of_each: bytes that are read of a file; None reads it wholly.

    Raises:
      TooLarge: if the files of a single asset are far more.
    """
    sizes = {name: sum(min(file.size, most_of_each or file.size) for file in files) for name, files in assets.items()}
    # Empty files tell nothing of others: they come last.
    ordered = sorted(assets, key=lambda name: (sizes[name] == 0, seeded_hash(0, "check", name), name))
    first: dict[str, str] = {}
    for name in ordered:
        first.setdefault(strata[name], name)
    if sizes[ordered[0]] > FAR_MORE * most:
        problem = f"the files of {ordered[0]} alone have {size_text(sizes[ordered[0]])}, too much for a quick look"
        raise TooLarge(f"source.files: {problem}; --full reads all files")
    chosen, size = {ordered[0]}, sizes[ordered[0]]
    for name in first.values():
        if name not in chosen and size + sizes[name] <= 2 * most:
            chosen.add(name)
            size += sizes[name]
    for name in ordered:
        if name not in chosen:
            size += sizes[name]
            if size > most:
                break
            chosen.add(name)
    return chosen


@dataclass(frozen=True)
class Stands:
    """For how much of a job the assets that were read stand.

    Attributes:
      rows: by asset, for how many rows each row that was read of it stands.
      assets: by asset, for how many assets it stands.
      other_rows, other_assets: likewise, of assets that paths do not name.
      unread: by split, the assets of which none was read, and their bytes.
      bytes: that were read.
      dealt: the job's split, where it deals assets out by their names and paths do not tell these.
    """

    rows: Mapping[str, float] = field(default_factory=dict)
    assets: Mapping[str, float] = field(default_factory=dict)
    other_rows: float = 1.0
    other_assets: float = 1.0
    unread: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    bytes: int = 0
    dealt: Split | None = None

    def for_rows(self, assets: Mapping[str, AssetRows], count: Callable[[AssetRows], int]) -> float:
        """What the counts of some assets' rows come to for all."""
        return sum(self.rows.get(name, self.other_rows) / asset.share * count(asset) for name, asset in assets.items())

    def for_assets(self, assets: Mapping[str, AssetRows], takes: Callable[[AssetRows], bool]) -> int:
        """For how many of all assets those stand of which something is true."""
        return round(sum(self.assets.get(name, self.other_assets) for name, asset in assets.items() if takes(asset)))


@dataclass(frozen=True)
class Look:
    """What is read of a job's files.

    Attributes:
      source: that reads it.
      files: of which something is read.
      whole: whether all is read.
      mixed: whether an asset may be in files that are not read: there are no fewer assets than is said.
      stands: for how much of all files it stands.
      share: of the rows that are read, where that is known before; None where files are read.
    """

    source: Source
    files: Sequence[FileStat]
    whole: bool
    mixed: bool = False
    stands: Stands = Stands()
    share: float | None = None


def choose(source: Source, files: Sequence[FileStat], most: int | None) -> Look:
    """What is read to see what a job will do.

    Args:
      source: of the job.
      files: of its input.
      most: how many bytes, where they are more; None reads all.

    Raises:
      TooLarge: if the files of a single asset are far more.
    """
    part = None if most is None else source.part(most)
    if part is not None:
        source, share = part
        return Look(source, files, share == 1, stands=Stands(other_rows=1 / share, other_assets=1 / share), share=share)
    if most is None or sum(file.size for file in files) <= most:
        return Look(source, files, whole=True)
    assets: dict[str, list[FileStat]] = defaultdict(list)
    mixed = False
    for file in files:
        name = source.asset_of_path(file.path, source.job)
        assets[name or file.path].append(file)  # one whose path does not tell stands for itself
        mixed |= name is None
    strata = {name: source.stratum(group[0].path) for name, group in assets.items()}
    most_each = most // min(LEAST_FILES, len(files))  # bytes of a file that can be read in part
    excerpt = source.excerpt(most_each)
    chosen = choose_assets(assets, strata, most, None if excerpt is None else most_each)
    paths = {file.path for name in chosen for file in assets[name]}
    read = [file for file in files if file.path in paths]
    stands = weigh(assets, strata, chosen)
    if mixed:
        dealt = source.job.split if source.job.split.by == "asset" else None
        stands = Stands(other_rows=stands.other_rows, dealt=dealt)
    complete = excerpt is None and len(read) == len(files)
    return Look(excerpt or source, read, complete, mixed, stands)


def weigh(assets: Mapping[str, Sequence[FileStat]], strata: Mapping[str, str], chosen: Collection[str]) -> Stands:
    """For how much the assets stand that were read: where paths name them, those of a split for all of that split."""
    count, all_bytes, read_count, read_bytes = (Counter[str]() for _ in range(4))
    for name, stratum in strata.items():
        size = sum(file.size for file in assets[name])
        count[stratum] += 1
        all_bytes[stratum] += size
        if name in chosen:
            read_count[stratum] += 1
            read_bytes[stratum] += size
    times = all_bytes.total() / max(1, read_bytes.total())
    return Stands(
        {name: all_bytes[strata[name]] / max(1, read_bytes[strata[name]]) for name in chosen},
        {name: count[strata[name]] / read_count[strata[name]] for name in chosen},
        times,
        times,
        {stratum: (count[stratum], all_bytes[stratum]) for stratum in count if not read_count[stratum]},
        read_bytes.total(),
    )


@dataclass(frozen=True)
class RowEstimate:
    """What becomes of the rows of all files, as far as these can be read.

    Attributes:
      rows: all.
      splits: in each split.
      set_aside: with their assets, or by themselves.
    """

    rows: int
    splits: Mapping[SplitName, int]
    set_aside: int

    @property
    def left_out(self) -> int:
        """The others: notes say why, such as rows in no split, without a label, or of a time that another row has."""
        return self.rows - sum(self.splits.values()) - self.set_aside


def estimate_rows(assets: Mapping[str, AssetRows], stands: Stands) -> RowEstimate:
    """What becomes of the rows of all files."""
    splits = {
        name: round(stands.for_rows(assets, lambda asset, name=name: asset.splits.get(name, 0)))  # type: ignore[misc]
        for name in SPLITS
    }
    set_aside = round(stands.for_rows(assets, lambda asset: asset.set_aside))
    rows = round(stands.for_rows(assets, lambda asset: asset.rows))
    unknown = stands.dealt is not None or stands.unread  # splits of assets that were not read are not in the sums
    return RowEstimate(rows, {} if unknown else splits, set_aside)


def scaled(manifest: Manifest, assets: Mapping[str, AssetRows], stands: Stands) -> Manifest:
    """The manifest of all files, where some were read; figures become estimates.

    Args:
      manifest: of those that were read.
      assets: what becomes of their rows.
      stands: for how much they stand.
    """
    every = list(manifest.splits.values())
    read = sum(info.windows for info in every)
    splits = {}
    for name, info in manifest.splits.items():
        windows = stands.for_rows(assets, lambda asset, name=name: asset.windows.get(name, 0))  # type: ignore[misc]
        n_assets = stands.for_assets(assets, lambda asset, name=name: bool(asset.windows.get(name)))  # type: ignore[misc]
        if stands.dealt is not None:  # chance deals out the assets, also those that were not found
            windows = stands.for_rows(assets, lambda asset: sum(asset.windows.values()))
            windows *= float(getattr(stands.dealt, name))
        elif name in stands.unread:
            n_assets, size = stands.unread[name]
            windows = read * size / max(1, stands.bytes)
        like = [info] if info.windows else every  # a window of a split that was not read is like those of the others
        times = windows / max(1, sum(shard.windows for shard in like))
        splits[name] = info.model_copy(
            update={
                "assets": n_assets,
                "windows": round(windows),
                "records": round(times * sum(shard.records for shard in like)),
                "bytes": round(times * sum(shard.bytes for shard in like)),
                "targets": {key: _times(target, times) for key, target in info.targets.items()},
            }
        )
    counts = manifest.counts.model_copy(
        update={
            "assets": stands.for_assets(assets, lambda asset: asset.rejected or any(asset.windows.values()))
            + sum(count for count, _ in stands.unread.values()),
            "rejected_assets": stands.for_assets(assets, lambda asset: asset.rejected),
            "rows_read": round(stands.for_rows(assets, lambda asset: asset.counted)),
            "rejected_rows": round(stands.for_rows(assets, lambda asset: 0 if asset.rejected else asset.set_aside)),
        }
    )
    return manifest.model_copy(update={"splits": splits, "counts": counts})


def _times(target: Target, times: float) -> Target:
    return target.model_copy(update={"counts": [round(times * count) for count in target.counts]})
