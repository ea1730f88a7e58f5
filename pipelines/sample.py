"""Which files are read to see what a job will do: all, or where these are large, those of some assets."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from beamfeed.contract.errors import UserError
from beamfeed.contract.sizes import size_text
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.splits import seeded_hash

SAMPLE_BYTES = 256 << 20  # that are read; a fleet of no more is read wholly
FAR_MORE = 4  # times as much as may be read, of an asset that cannot be read in part


def choose_files(
    files: Sequence[FileStat], asset_of: Callable[[str], str | None], most: int | None = SAMPLE_BYTES
) -> list[FileStat]:
    """The files of some assets, at least one, by chance and always the same.

    Args:
      files: of all assets.
      asset_of: the asset of a path; None where the path does not tell, so that each file stands for itself.
      most: how many bytes; None takes all.

    Raises:
      UserError: if the files of a single asset are far more.
    """
    if most is None or sum(file.size for file in files) <= most:
        return list(files)
    by_asset: dict[str, list[FileStat]] = defaultdict(list)
    for file in files:
        by_asset[asset_of(file.path) or file.path].append(file)
    chosen: set[str] = set()
    size = 0
    for name in sorted(by_asset, key=lambda name: (seeded_hash(0, "check", name), name)):
        size += sum(file.size for file in by_asset[name])
        if chosen and size > most:
            break
        if size > FAR_MORE * most:
            told = f"the files of {name} alone have {size_text(size)}, too much to read for a look"
            raise UserError(f"source.files: {told}; --full reads all files")
        chosen |= {file.path for file in by_asset[name]}
    return [file for file in files if file.path in chosen]
