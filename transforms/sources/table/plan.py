"""What a table is divided into: files, accepted or set aside as a whole, and units of whole groups of rows."""

from collections.abc import Iterator
from dataclasses import dataclass

from beamfeed.contract.storage import FileStat
from beamfeed.transforms.sources.descriptors import Asset, Piece, Unit
from beamfeed.transforms.sources.readers import BAD, Group, divides, is_parquet, iter_batches, open_parquet, row_groups
from beamfeed.transforms.sources.table.schema import TableSchema

UNIT_BYTES = 64 << 20


@dataclass(frozen=True)
class TableFile(Piece):
    """A file.

    Attributes:
      groups: of rows, where each can be read by itself.
      scratch: a folder for what is made of its rows until they are written.
    """

    groups: tuple[Group, ...]
    scratch: str


class TableAsset(Asset[TableFile]):
    """A file, as what is accepted or set aside."""

    @property
    def piece(self) -> TableFile:
        """The file."""
        return self.pieces[0]


def scan_file(file: FileStat, name: str, schema: TableSchema, scratch: str) -> TableFile:
    """Where the rows of a file are.

    Raises:
      BadInput: if the file cannot be used at all.
    """
    path = file.path
    if is_parquet(path):
        with open_parquet(path) as parquet:
            schema.check(path, parquet.schema_arrow)
            groups = row_groups(parquet)
    else:
        found: dict[int, Group] = {}
        for group, _, _ in iter_batches(path, schema, [*schema.names[:1], BAD]):
            found[group.place] = group
        groups = list(found.values())
    rows = sum(group.rows for group in groups)
    kept = tuple(groups) if divides(path, schema) else ()
    return TableFile(name, path, rows, file=file, groups=kept, scratch=scratch)


def cut_units(asset: TableAsset, columns: int) -> Iterator[Unit[TableAsset]]:
    """Runs of whole groups of about 64 MB; a file that can only be read from its start is one."""
    piece = asset.piece
    if not asset.rows:
        return
    start = index = size = 0
    for group in piece.groups:
        size += group.rows * 8 * columns
        if size >= UNIT_BYTES:
            yield Unit(asset, index, start, group.row + group.rows)
            start, index, size = group.row + group.rows, index + 1, 0
    if start < asset.rows:
        yield Unit(asset, index, start, asset.rows)
