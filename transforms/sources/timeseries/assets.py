"""Names assets by their files' paths."""

import re

from beamfeed.contract.config.sources.timeseries import AssetFrom, TimeseriesSource


def path_columns(path: str, asset: AssetFrom) -> dict[str, str]:
    """The named groups of `asset.pattern` found in the path; {} without a pattern or a match."""
    found = re.search(asset.pattern, path) if asset.pattern else None
    return {name: value for name, value in found.groupdict().items() if value is not None} if found else {}


def asset_of_path(path: str, asset: AssetFrom) -> str | None:
    """The asset that a path names: its group 'asset', or the file's stem; None where the pattern is not found."""
    if asset.pattern:
        return path_columns(path, asset).get("asset")
    return TimeseriesSource.stem(path)
