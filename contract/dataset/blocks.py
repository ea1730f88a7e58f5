"""The index of blocks: where a reader can begin in the shards of a split.

A block is a run of records that a reader takes with one read. The index lies beside
the shards, one Parquet file for each split, and only who reads windows reads it:
the manifest stays small whatever the size of the dataset.
"""

import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.errors import UserError, first_line

# A row for each block, in the order of the shards and of the blocks in them. `bytes` are those in the file; of a
# compressed one, in what it holds.
SCHEMA = pa.schema([(name, pa.int64()) for name in ("shard", "records", "windows", "bytes")])


def write_blocks(path: str, blocks: pa.Table) -> None:
    """Writes the index of a split; `blocks` has the columns of SCHEMA."""
    storage.write_table(path, blocks.cast(SCHEMA))


def read_blocks(output: str, manifest: Manifest, split: str) -> pa.Table:
    """The index of a split, a table with the columns of SCHEMA.

    Raises:
      UserError: if it is missing, damaged, or not that of the manifest's shards.
    """
    import pyarrow.compute as pc

    path = manifest.data_layout(output).blocks(split)
    try:
        blocks = storage.read_table(path)
    except FileNotFoundError:
        raise UserError(f"{path}: the index of the shards is missing; {manifest.remedy}") from None
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path}: damaged: {first_line(error)}; {manifest.remedy}") from None
    info = manifest.splits[split]  # type: ignore[index]
    shards = info.shards
    if blocks.schema != SCHEMA:
        raise UserError(f"{path}: is not an index of this version; {manifest.remedy}")
    if info.chosen is not None:  # numbered as the manifest has them
        place = pc.index_in(blocks["shard"], value_set=pa.array(info.chosen, pa.int64()))
        blocks = blocks.set_column(0, SCHEMA.field("shard"), place.cast(pa.int64())).filter(place.is_valid())
    sums = blocks.group_by("shard").aggregate([("records", "sum"), ("windows", "sum")]).sort_by("shard")
    facts = [(number, shard.records, shard.windows) for number, shard in enumerate(shards) if shard.records]
    if list(zip(*(sums[name].to_pylist() for name in ("shard", "records_sum", "windows_sum")), strict=True)) != facts:
        raise UserError(f"{path}: does not fit the manifest's shards; {manifest.remedy}")
    steps = pc.pairwise_diff(blocks["shard"].combine_chunks())[1:]
    if not pc.all(pc.greater_equal(steps, 0), min_count=0).as_py():
        raise UserError(f"{path}: damaged: its blocks are out of order; {manifest.remedy}")
    return blocks
