"""What becomes of an asset's pieces before its rows are read: it is planned, set aside, or left out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from beamfeed.transforms.notes import Note
from beamfeed.transforms.rejects import Reject
from beamfeed.transforms.sources.base import Source
from beamfeed.transforms.sources.descriptors import Asset, CannotGoOn, KnownAsset, Piece, Reread


@dataclass(frozen=True)
class Planned:
    """What the pieces of an asset came to.

    Attributes:
      asset: what they make up; None where it takes no part.
      rejects: why it was set aside.
      notes: why it was left out.
      values: of split.column, as their paths tell them.
      was_short: whether an earlier run set it aside for too few rows, which counts no more.
    """

    asset: Asset | None
    rejects: tuple[Reject, ...] = ()
    notes: tuple[Note, ...] = ()
    values: tuple[str, ...] = ()
    was_short: bool = False


def plan_any(
    source: Source, name: str, parts: Sequence[Piece | Reread | Reject | KnownAsset], lost: Sequence[Reject],
    *, is_mixed: bool = False,
) -> Planned:  # fmt: skip
    """Plans an asset, or what is new of one that goes on.

    Args:
      source: that plans it.
      name: of the asset.
      parts: its pieces in any order, those in files of earlier runs, why files of it are set aside, and what is known
        of it.
      lost: the files that are set aside and may hold rows of any asset.
      is_mixed: whether a file may hold any asset.

    Raises:
      CannotGoOn: if there is something known of it, and it cannot.
    """
    rejects = [part for part in parts if isinstance(part, Reject)]
    pieces = [part for part in parts if isinstance(part, Piece)]
    known = next((part for part in parts if isinstance(part, KnownAsset)), None)
    if known is None:
        return plan_asset(source, name, pieces, rejects, lost) if pieces or rejects else Planned(None)
    tail = [part.piece for part in parts if isinstance(part, Reread) and part.piece.path in known.tail]
    lost_here = lost if is_mixed else ()  # else paths say whose they are not
    if known.short and not lost_here:
        planned = plan_asset(source, name, [*tail, *pieces], rejects, lost) if pieces or rejects else Planned(None)
        return replace(planned, was_short=bool(pieces or rejects))
    if reject := next(iter([*rejects, *lost_here]), None):
        raise CannotGoOn(f"{reject.file} may go on with asset {name}, and cannot be used: {reject.reason}")
    if not pieces:
        return Planned(None)
    if not known.tail:
        raise CannotGoOn(f"{pieces[0].path} goes on with asset {name}, whose rows have to be read all together")
    return Planned(source.go_on(known, tail, pieces))


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
