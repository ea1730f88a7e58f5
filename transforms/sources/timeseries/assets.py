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
    if asset.column is not None:
        return path_columns(path, asset).get(asset.column)
    if asset.pattern:
        return path_columns(path, asset).get("asset")
    return TimeseriesSource.stem(path)


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
        keys = [key for key, value in path_columns(path, asset).items() if path_columns(first, asset).get(key) != value]
        same = path.rpartition("/")[0] == first.rpartition("/")[0]
        folders = r"'(?P<asset>[^/]+)/[^/]+$'"
        hint = (
            f"source.asset={{column: {keys[0]}}}"
            if keys
            else "leave one of them out"
            if same
            else f"source.asset={{from: path, pattern: {folders}}}, which takes the folder's name"
        )
        name = TimeseriesSource.stem(path)
        raise UserError(
            f"source.asset: {first} and {path} would both be the asset {name!r}; if they are two, write {hint}; "
            "if they are one, give a pattern whose group 'asset' is the same for both"
            if not same
            else f"source.asset: {first} and {path} would both be the asset {name!r}; {hint}"
        )
