"""Which files are read to see what a job will do: all, or where these are large some; and what these say of all."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
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


def choose_files(
    files: Sequence[FileStat], asset_of: Callable[[str], str | None], most: int | None = SAMPLE_BYTES, *,
    stratum_of: Callable[[str], str] = lambda path: "", most_of_each: int | None = None,
) -> list[FileStat]:  # fmt: skip
    """The files of some assets, by chance and always the same: at least one, and one of each split that paths tell.

    Args:
      files: of all assets.
      asset_of: the asset of a path; None where the path does not tell, so that each file stands for itself.
      most: how many bytes; None takes all.
      stratum_of: what a path tells of its split.
      most_of_each: how many bytes are read of a file; None reads it wholly.

    Raises:
      TooLarge: if the files of a single asset are far more.
    """
    if most is None or sum(file.size for file in files) <= most:
        return list(files)
    by_asset: dict[str, list[FileStat]] = defaultdict(list)
    for file in files:
        by_asset[asset_of(file.path) or file.path].append(file)
    sizes = {name: sum(min(file.size, most_of_each or file.size) for file in group) for name, group in by_asset.items()}
    ordered = sorted(by_asset, key=lambda name: (seeded_hash(0, "check", name), name))
    first: dict[str, str] = {}
    for name in ordered:
        first.setdefault(stratum_of(by_asset[name][0].path), name)
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
    return [file for file in files if (asset_of(file.path) or file.path) in chosen]


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
    most_each = most // min(LEAST_FILES, len(files))  # bytes of a file that can be read in part
    excerpt = source.excerpt(most_each)

    def asset_of(path: str) -> str | None:
        return source.asset_of_path(path, source.job)

    of_each = None if excerpt is None else most_each
    read = choose_files(files, asset_of, most, stratum_of=source.stratum, most_of_each=of_each)
    stands = weigh(files, read, asset_of, source.stratum)
    mixed = any(asset_of(file.path) is None for file in files)
    if mixed:
        dealt = source.job.split if source.job.split.by == "asset" else None
        stands = Stands(other_rows=stands.other_rows, dealt=dealt)
    complete = excerpt is None and len(read) == len(files)
    return Look(excerpt or source, read, complete, mixed, stands)


def weigh(
    files: Sequence[FileStat], read: Sequence[FileStat], asset_of: Callable[[str], str | None],
    stratum_of: Callable[[str], str],
) -> Stands:  # fmt: skip
    """For how much the files that were read stand: where paths name assets, those of a split for all of that split."""
    share = sum(file.size for file in read) / max(1, sum(file.size for file in files))
    stratum: dict[str, str] = {}
    size, count, all_bytes, read_count, read_bytes = (Counter[str]() for _ in range(5))
    for file in files:
        name = asset_of(file.path) or file.path
        stratum.setdefault(name, stratum_of(file.path))
        size[name] += file.size
    names_read = {asset_of(file.path) or file.path for file in read}
    for name, of in stratum.items():
        count[of] += 1
        all_bytes[of] += size[name]
        read_count[of] += name in names_read
        read_bytes[of] += size[name] * (name in names_read)
    return Stands(
        {name: all_bytes[of] / max(1, read_bytes[of]) for name, of in stratum.items() if name in names_read},
        {name: count[of] / read_count[of] for name, of in stratum.items() if name in names_read},
        1 / share,
        1 / share,
        {of: (count[of], all_bytes[of]) for of in count if not read_count[of]},
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
