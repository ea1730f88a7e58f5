"""What a table is divided into: files, accepted or set aside as a whole, and units of whole groups of rows."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from beamfeed.contract.storage import FileStat
from beamfeed.transforms.sources.descriptors import Asset, Piece, Unit
from beamfeed.transforms.sources.readers import BAD, Group, divides, iter_batches
from beamfeed.transforms.sources.readers.excerpt import choose_parts, stored_groups
from beamfeed.transforms.sources.table.schema import TableSchema

UNIT_BYTES = 64 << 20


@dataclass(frozen=True)
class TableFile(Piece):
    """A file.

    Attributes:
      groups: of rows, where each can be read by itself.
      scratch: a folder for what is made of its rows until they are written.
      parts: in a look at a large file, rows [start, end) that are read; () where all are.
      by_bytes: rows of parts are numbered by the byte that their part begins at.
    """

    groups: tuple[Group, ...]
    scratch: str
    parts: tuple[tuple[int, int], ...] = ()
    by_bytes: bool = False

    def place(self, row: int) -> str:
        """Where a row is, for people."""
        return f"a row after byte {row:,}" if self.by_bytes else f"row {row}"


TableAsset: TypeAlias = Asset[TableFile]  # a file, as what is accepted or set aside


def scan_file(file: FileStat, name: str, schema: TableSchema, scratch: str, most: int | None = None) -> TableFile:
    """Where the rows of a file are.

    Args:
      file: local or gs://
      name: of the asset that it is.
      schema: what it must hold.
      scratch: a folder for what is made of its rows.
      most: bytes of it that are to be read, for a look; None reads all.

    Raises:
      BadInput: if the file cannot be used at all.
    """
    path = file.path
    if most is not None and file.size > most and (parts := _scan_parts(file, name, schema, scratch, most)):
        return parts
    groups = stored_groups(path, schema)
    if groups is None:
        groups = _groups_of(path, schema, None)
    rows = sum(group.rows for group in groups)
    listed = tuple(groups) if divides(path, schema) else ()
    return TableFile(name, path, rows, file=file, groups=listed, scratch=scratch)


def _groups_of(path: str, schema: TableSchema, groups: list[Group] | None) -> list[Group]:
    """The groups of a text, with their rows."""
    by_place: dict[int, Group] = {}
    for group, _, _ in iter_batches(path, schema, [*schema.names[:1], BAD], groups):
        by_place[group.place] = group
    return list(by_place.values())


def _scan_parts(file: FileStat, name: str, schema: TableSchema, scratch: str, most: int) -> TableFile | None:
    """Some rows of a large file; None where it can be read only as a whole."""
    path = file.path
    chosen = choose_parts(path, file.size, schema, most)
    if not chosen:
        return None
    stored = stored_groups(path, schema)
    if stored is not None:
        groups = [group for group, _ in chosen]
        parts = tuple((group.row, group.row + rows) for group, rows in chosen)
        share = sum(end - start for start, end in parts) / sum(group.rows for group in stored)
    else:
        groups = _groups_of(path, schema, [group for group, _ in chosen])
        parts = tuple((group.row, group.row + group.rows) for group in groups)
        share = sum(group.size for group in groups) / file.size
    rows = sum(end - start for start, end in parts)
    return TableFile(
        name, path, rows, file=file, groups=tuple(groups), scratch=scratch, parts=parts,
        by_bytes=stored is None, share=share,
    )  # fmt: skip


def cut_units(asset: TableAsset, columns: int) -> Iterator[Unit[TableAsset]]:
    """Runs of whole groups of about 64 MB; a file that can only be read from its start is one."""
    piece = asset.piece
    if not asset.rows:
        return
    if piece.parts:
        for index, (group, (start, end)) in enumerate(zip(piece.groups, piece.parts, strict=True)):
            yield Unit(with_groups(asset, group), index, start, end)
        return
    start = index = size = 0
    groups: list[Group] = []
    for group in piece.groups:
        size += group.rows * 8 * columns
        groups.append(group)
        if size >= UNIT_BYTES:
            yield Unit(with_groups(asset, *groups), index, start, group.row + group.rows)
            start, index, size, groups = group.row + group.rows, index + 1, 0, []
    if start < asset.rows:
        yield Unit(with_groups(asset, *groups), index, start, asset.rows)


def with_groups(asset: TableAsset, *groups: Group) -> TableAsset:
    """The file with those of its groups that a unit reads: all of them in each would grow with its square."""
    return replace(asset, pieces=(replace(asset.piece, groups=groups),))
