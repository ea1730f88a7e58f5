"""What becomes of an asset's pieces before its rows are read: it is planned, set aside, or left out."""

from collections.abc import Sequence
from dataclasses import dataclass

from beamfeed.transforms.notes import Note
from beamfeed.transforms.rejects import Reject
from beamfeed.transforms.sources.base import Source
from beamfeed.transforms.sources.descriptors import Asset, Piece


@dataclass(frozen=True)
class Planned:
    """What the pieces of an asset came to.

    Attributes:
      asset: what they make up; None where it takes no part.
      rejects: why it was set aside.
      notes: why it was left out.
      values: of split.column, as their paths tell them.
    """

    asset: Asset | None
    rejects: tuple[Reject, ...] = ()
    notes: tuple[Note, ...] = ()
    values: tuple[str, ...] = ()


def plan_asset(
    source: Source, name: str, pieces: Sequence[Piece], rejects: Sequence[Reject], lost: Sequence[Reject]
) -> Planned:
    """Plans an asset.

    Args:
      source: that plans it.
      name: of the asset.
      pieces: of it, in any order.
      rejects: of its files, found while they were scanned.
      lost: the files that are set aside and may hold rows of any asset.
    """
    values = tuple(sorted({piece.split_value for piece in pieces if piece.split_value is not None}))
    if rejects:
        return Planned(None, tuple(rejects), values=values)
    planned = source.plan(name, pieces, lost)
    if planned is None:
        text = f"rows left out, as {source.job.split.column} is {pieces[0].split_value!r}, in no list of split"
        return Planned(None, notes=(Note(text, name, source.rows_in(pieces)),), values=values)
    return Planned(None, (planned,), values=values) if isinstance(planned, Reject) else Planned(planned, values=values)
