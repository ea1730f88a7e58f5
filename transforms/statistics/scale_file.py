r"""The file of the SavedModel that holds each asset's own scaling: nothing of the fleet's size is in the graph.

A line for each asset, `name<TAB>row`, in an order that the names alone set. Both are in web-safe base64 without
padding, so that a name may hold what it likes: the name as UTF-8, the row as little-endian float32, first the offsets
of all features, then the divisors. `tf.lookup.TextFileInitializer` reads it. It refuses a file without lines, so the
first line is of no asset.
"""

import base64
import hashlib
from collections.abc import Iterable
from itertools import chain

import apache_beam as beam

from beamfeed.contract import storage
from beamfeed.transforms.statistics.scaling import FIRST_LINE, SCALE_FILE, Scaling

PIECES = 16  # of the file are sorted and written by themselves: no worker holds the whole


def encode_name(asset: str) -> bytes:
    """The key of an asset; `tf.io.encode_base64` gives the same in the graph."""
    return _base64(asset.encode())


def scale_line(asset: str, scaling: Scaling) -> bytes:
    """The line of an asset, with its end."""
    return b"%s\t%s\n" % (encode_name(asset), _base64(scaling.rows.astype("<f4").tobytes()))


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def piece_of(asset: str) -> int:
    """The number of the piece that an asset's line is in, by a hash of its name."""
    return hashlib.blake2b(asset.encode(), digest_size=1).digest()[0] % PIECES


def write_piece(folder: str, piece: int, lines: Iterable[bytes]) -> tuple[int, str]:
    """Writes the lines of a piece in order; returns its number and path. Done twice, it comes to the same."""
    path = storage.join(folder, f"piece-{piece:02d}")
    storage.write_bytes(path, b"".join(sorted(lines)))
    return piece, path


def join_pieces(folder: str, pieces: Iterable[tuple[int, str]]) -> str:
    """Writes all pieces as one file, and returns its path."""
    path = storage.join(folder, SCALE_FILE)
    chunks = (chunk for _, piece in sorted(pieces) for chunk in storage.read_chunks(piece))
    storage.write_chunks(path, chain([FIRST_LINE], chunks))
    return path


def write_scale_file(
    assets: beam.PCollection, folder: str, fleet: beam.PCollection, min_divisor: float
) -> beam.PCollection:
    """PCollection of (asset's name, Scaling) -> PCollection of one path, the file.

    Args:
      assets: with the scaling of each.
      folder: where to.
      fleet: PCollection of one Scaling.
      min_divisor: no divisor is less than this times the fleet's.
    """
    pieces = (
        assets
        | "ScaleLine" >> beam.Map(_keyed_line, beam.pvalue.AsSingleton(fleet), min_divisor)
        | "GroupByPiece" >> beam.GroupByKey()
        | "WritePiece" >> beam.Map(lambda keyed: write_piece(folder, *keyed))
    )
    once = assets.pipeline | "ScaleFileOnce" >> beam.Create([None])
    return once | "JoinScales" >> beam.Map(lambda _, paths: join_pieces(folder, paths), beam.pvalue.AsList(pieces))


def _keyed_line(named: tuple[str, Scaling], fleet: Scaling, min_divisor: float) -> tuple[int, bytes]:
    asset, scaling = named
    return piece_of(asset), scale_line(asset, scaling.at_least(fleet, min_divisor))
