"""What a dataset that grows knows of its assets, so that new files may go on with them: a row of Parquet for each."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, fields

import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.errors import first_line
from beamfeed.transforms.notes import LACKING, Note, to_line
from beamfeed.transforms.packing import Packed, by_name
from beamfeed.transforms.sources.descriptors import CannotGoOn, KnownAsset
from beamfeed.transforms.splits import wanted_splits

_TYPES: dict[object, pa.DataType] = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}  # others are tuples of texts
KNOWN = pa.schema([(field.name, _TYPES.get(field.type, pa.list_(pa.string()))) for field in fields(KnownAsset)])


def iter_known(path: str, but: Collection[str] = ()) -> Iterator[tuple[str, KnownAsset]]:
    """By name, what a dataset knows of its assets, but for some."""
    for batch in read_known(path).to_batches(max_chunksize=10_000):
        for row in batch.to_pylist():
            known = KnownAsset(**{**row, "splits": tuple(row["splits"]), "tail": tuple(row["tail"])})
            if known.asset not in but:
                yield known.asset, known


def tails_of(gathered: tuple[int, Packed]) -> Iterator[str]:
    """(bucket, its assets' new pieces and KnownAssets by name) -> the paths of the tails of those that have both."""
    for parts in by_name(gathered[1]).values():
        known = [part for part in parts if isinstance(part, KnownAsset)]
        if len(known) < len(parts):
            for asset in known:
                yield from asset.tail


def all_known(before: str, known: Iterable[KnownAsset], gone: Collection[str] = ()) -> pa.Table:
    """What is known of all assets of a dataset.

    Args:
      before: the file of the dataset that is added to, whose other assets stay as they are; empty where there is none.
      known: the assets of this run.
      gone: names of assets that are there no more, unless this run has them.
    """
    table = pa.Table.from_pylist([asdict(asset) for asset in sorted(known, key=lambda asset: asset.asset)], KNOWN)
    if before:
        others, names = read_known(before), pa.array(sorted({*gone, *table["asset"].to_pylist()}), pa.string())
        table = pa.concat_tables([others.filter(pc.invert(pc.is_in(others["asset"], names))), table])
    return table


def lacking_lines(known: pa.Table, job: Job) -> list[str]:
    """Which splits by time assets have nothing in, a line each."""
    lines = []
    known = known.filter(pc.greater(pc.list_value_length(known["splits"]), 0))
    joined = pc.binary_join(known["splits"], ",")
    for name in wanted_splits(job.split) if job.split.by == "time" else ():
        lacking = known["asset"].filter(pc.invert(pc.match_substring(joined, name))).to_pylist()
        if lacking:
            text = f"{LACKING} {name}"
            lines.append(to_line(text, (Note(text, asset) for asset in lacking)))
    return lines


def known_before(layout: DataLayout) -> pa.Table:
    """What a dataset knows of its assets.

    Raises:
      CannotGoOn: if that is not there, or damaged.
    """
    try:
        return read_known(layout.assets)
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise CannotGoOn(f"{layout.assets} cannot be read ({first_line(error)})") from None


def read_known(path: str) -> pa.Table:
    """The table of what is known, with the columns of KNOWN."""
    return storage.read_table(path).cast(KNOWN)
