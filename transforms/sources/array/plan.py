"""What arrays are divided into: blocks of rows, of all arrays, and the pieces of files that they are in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from beamfeed.contract.arrays.catalog import Part
from beamfeed.contract.arrays.stored import Stored
from beamfeed.transforms.rejects import Reject
from beamfeed.transforms.sources.array.read import is_packed, unpacked_bytes
from beamfeed.transforms.sources.array.schema import ArraySchema
from beamfeed.transforms.sources.descriptors import Asset, Piece

BLOCK_BYTES, LEAST_BYTES = 64 << 20, 1 << 20
BLOCKS = 16  # of a small set of arrays, so that there is work for several workers


@dataclass(frozen=True)
class ArrayPiece(Piece):
    """The rows of a block that one file has of one array.

    Attributes:
      array: its name.
      first: the array's row with which it begins.
      at: the file's row with which it begins.
      stored: where the rows are; of a packed file, in the copy that was made of it.
    """

    array: str
    first: int
    at: int
    stored: Stored


@dataclass(frozen=True)
class ArrayBlock(Asset[ArrayPiece]):
    """Rows of all arrays: what is accepted or set aside as a whole.

    Attributes:
      first: its first row.
      count: its rows.
    """

    first: int
    count: int

    @property
    def rows(self) -> int:
        """How many it has: those of one array."""
        return self.count

    def file_of(self, array: str, row: int) -> str:
        """The path of the file that a row of an array is in."""
        return next(piece.path for piece in self.pieces_of(array) if piece.first <= row < piece.first + piece.rows)

    def pieces_of(self, array: str) -> list[ArrayPiece]:
        """Those of an array, in order of the rows."""
        return [piece for piece in self.pieces if piece.array == array]


@dataclass(frozen=True)
class Blocks:
    """The blocks that rows are cut into.

    Attributes:
      begin: the first row; those before it are in the dataset that is added to.
      end: behind the last one.
      size: rows of a block; the last one may have fewer.
    """

    begin: int
    end: int
    size: int

    @classmethod
    def of(cls, schema: ArraySchema, rows_per_record: int, begin: int) -> "Blocks":
        """Those of arrays from a row on; they depend on the arrays alone."""
        size = min(BLOCK_BYTES, max(LEAST_BYTES, (schema.rows - begin) * schema.row_bytes // BLOCKS))
        rows = max(1, size // schema.row_bytes // rows_per_record) * rows_per_record
        return cls(begin, schema.rows, rows)

    @property
    def count(self) -> int:
        """How many there are."""
        return -(-(self.end - self.begin) // self.size)

    def number_of(self, row: int) -> int:
        """That of the block that a row is in."""
        return (row - self.begin) // self.size

    def span(self, number: int) -> tuple[int, int]:
        """The first row of a block, and the one behind its last."""
        first = self.begin + number * self.size
        return first, min(first + self.size, self.end)

    def name(self, number: int) -> str:
        """What a block is called: `rows 000-499`. The names are in the order of the rows."""
        (first, end), width = self.span(number), len(str(self.end - 1))
        return f"rows {first:0{width}d}-{end - 1:0{width}d}"


def packed_parts(schema: ArraySchema) -> list[Part]:
    """The parts of arrays that are packed, so that they are unpacked from their beginning on."""
    parts = (part for column in schema.columns for part in column.array.parts)
    return [part for part in parts if is_packed(part.stored)]


def blocks_within(packed: Sequence[Part], blocks: Blocks, most: int) -> Sequence[int]:
    """The numbers of blocks for which no more than `most` bytes of packed parts are unpacked; or the first."""
    if not packed:
        return range(blocks.count)

    def unpacked(number: int) -> int:
        first, end = blocks.span(number)
        return sum(
            unpacked_bytes(part.stored, min(end, part.end) - part.first)
            for part in packed
            if part.first < end and part.end > first
        )

    return [number for number in range(blocks.count) if unpacked(number) <= most] or [0]


def parts_by_path(schema: ArraySchema) -> dict[str, list[tuple[str, Part]]]:
    """The arrays that each file holds, by its path: their names, and which of their rows."""
    by_path: dict[str, list[tuple[str, Part]]] = {}
    for column in schema.columns:
        for part in column.array.parts:
            by_path.setdefault(part.stored.file.path, []).append((column.name, part))
    return by_path


def cut_part(array: str, part: Part, blocks: Blocks, numbers: frozenset[int] | None) -> Iterator[ArrayPiece]:
    """The pieces of an array in a file, one for each block that has rows of it.

    Args:
      array: its name.
      part: which rows of it.
      blocks: that its rows are in.
      numbers: the numbers of the blocks that are read; None: all.
    """
    file = part.stored.file
    for number in range(blocks.number_of(part.first), blocks.number_of(part.end - 1) + 1):
        if numbers is None or number in numbers:
            begin, behind = blocks.span(number)
            first, end = max(part.first, begin), min(part.end, behind)
            yield ArrayPiece(
                blocks.name(number), file.path, end - first, file=file, array=array, first=first,
                at=first - part.first, stored=part.stored,
            )  # fmt: skip


def gather_block(
    name: str, pieces: Sequence[ArrayPiece], schema: ArraySchema, blocks: Blocks, lost: Sequence[Reject]
) -> ArrayBlock | Reject:
    """The block that some pieces make up, or why it cannot be used: a file of it was set aside."""
    ordered = tuple(sorted(pieces, key=lambda piece: (piece.array, piece.first)))
    first, end = blocks.span(blocks.number_of(min(piece.first for piece in ordered)))
    block = ArrayBlock(name, ordered, None, first=first, count=end - first)
    for column in schema.columns:
        if sum(piece.rows for piece in block.pieces_of(column.name)) != block.count:
            why = f", as {lost[0].file} was set aside" if lost else ""
            return Reject(name, block.files, column.name, f"lacks rows of {column.name}{why}")
    return block
