"""Manifests of datasets that are not there."""

from collections.abc import Mapping, Sequence

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Counts, Manifest, SplitInfo


def manifest_of(fields: Sequence[Field], splits: Mapping[str, SplitInfo], length: int = 1) -> Manifest:
    """A manifest of these fields and splits, whose windows are so long."""
    return Manifest(
        name="tiny", kind="handmade", fingerprint="f", data="data-f", fields=list(fields), splits=dict(splits),
        windows=Windows(length=length), records="segments", compression="none",
        counts=Counts(files=1, assets=1, rejected_assets=0, rejected_files=0, rows_read=1),
    )  # fmt: skip
