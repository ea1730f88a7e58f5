"""Names assets by their files' paths."""

import re
from collections.abc import Sequence

from beamfeed.contract.config.sources.timeseries import AssetFrom, TimeseriesSource
from beamfeed.contract.errors import UserError
from beamfeed.transforms.sources.columns.paths import key_columns


def path_columns(path: str, asset: AssetFrom) -> dict[str, str]:
    """The columns that a path tells: keys of `key=value` folders, and the named groups of `asset.pattern`."""
    match = re.search(asset.pattern, path) if asset.pattern else None
    groups = match.groupdict() if match else {}
    return {**key_columns(path), **{name: value for name, value in groups.items() if value is not None}}


def asset_of_path(path: str, asset: AssetFrom) -> str | None:
    """The asset that a path names, by a column of the path, the group 'asset' or the file's stem; None if none."""
    if asset.column is None and not asset.pattern:
        return TimeseriesSource.stem(path)
    return path_columns(path, asset).get(asset.column or "asset")


def check_stems(paths: Sequence[str], asset: AssetFrom) -> None:
    """Refuses files whose stems name one asset: nobody said that their rows belong together.

    Raises:
      UserError: with what to write instead.
    """
    if asset.pattern or asset.column is not None:
        return
    by_name: dict[str, str] = {}
    for path in paths:
        first = by_name.setdefault(TimeseriesSource.stem(path), path)
        if first == path:
            continue
        problem = f"source.asset: {first} and {path} would both be the asset {TimeseriesSource.stem(path)!r}"
        if path.rpartition("/")[0] == first.rpartition("/")[0]:
            raise UserError(f"{problem}; leave one of them out")
        hint = r"source.asset={from: path, pattern: '(?P<asset>[^/]+)/[^/]+$'}, which takes the folder's name"
        of_first = path_columns(first, asset)
        if keys := [key for key, value in path_columns(path, asset).items() if of_first.get(key) != value]:
            hint = f"source.asset={{column: {keys[0]}}}"
        raise UserError(
            f"{problem}; if they are two, write {hint}; "
            "if they are one, give a pattern whose group 'asset' is the same for both"
        )
