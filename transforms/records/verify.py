"""Reads written shards back: what the manifest says of them was seen in the file."""

from collections.abc import Iterator, Mapping, Sequence

import apache_beam as beam
import numpy as np

from beamfeed.contract import storage
from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import LENGTHS, Field
from beamfeed.contract.dataset.manifest import Shard
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.contract.progress import Progress
from beamfeed.contract.records.examples import Features, Records, count_entries, features_of, find_lists
from beamfeed.contract.records.frames import Counted, Damaged, read_frames, unpacked
from beamfeed.contract.records.pieces import add_up, find_numbers
from beamfeed.contract.records.verify import differences, measure_shard
from beamfeed.transforms.records.blocks import cut_blocks
from beamfeed.transforms.records.tfrecord import Written


def count_rows(
    lists: Mapping[str, np.ndarray], fields: Sequence[Field], windows: Windows
) -> tuple[np.ndarray, str | None]:
    """The rows of each record, int64 `[records]`, by what it holds of each field; and what is wrong, if something is.

    Args:
      lists: int64 `[records]` by feature: how long its list is; by `<field>.lengths.sum`, what the lengths add up to.
      fields: of a record.
      windows: of the dataset.
    """
    counts, wrong = {}, []
    for field in fields:
        entries, rest = np.divmod(lists[field.name], field.listed_width)
        counts[field.name] = entries
        if field.is_ragged:
            counts[field.name] = lists[field.name + LENGTHS]
            rest = rest + abs(entries - lists[f"{field.name}{LENGTHS}.sum"])
        if rest.any():
            wrong.append(f"a record holds no whole values of {field.name!r}")
    by_row = next(field.name for field in fields if field.per == "row")
    rows = counts[by_row]
    windows_held = count_windows(rows, windows.length, windows.stride)
    if not windows_held.all():
        wrong.append("a record holds no whole window")
    for field in fields:
        expected = {"row": rows, "window": windows_held, "record": np.ones_like(rows)}[field.per]
        if (bad := np.flatnonzero(counts[field.name] != expected)).size:
            count, most = counts[field.name][bad[0]], expected[bad[0]]
            wrong.append(f"a record holds {count} values of {field.name!r}, by its {by_row!r} it must hold {most}")
    return rows, wrong[0] if wrong else None


def measured_records(records: Records, fields: Sequence[Field], windows: Windows) -> np.ndarray:
    """Bytes and rows of each record, int64 `[2, records]`.

    Raises:
      JobFailed: if a record does not hold each field for its rows and windows.
    """
    rows, wrong = count_rows(_lengths_of_lists(records, features_of(fields)), fields, windows)
    if wrong:
        raise JobFailed(wrong)
    return np.stack([records.pieces.sizes, rows])


def _lengths_of_lists(records: Records, features: Features) -> dict[str, np.ndarray]:
    try:
        lists = find_lists(records, features)
        counts = {feature.key: count_entries(lists, feature) for feature in features}
        for name in [name for name in counts if name.endswith(LENGTHS)]:
            counts[f"{name}.sum"] = add_up(*find_numbers(lists.buffer, lists.pieces[name]))
    except (ValueError, UserError) as error:
        raise JobFailed(f"a record is not as it was encoded: {error}") from None
    return counts


def verify_shard(
    written: Written, fields: Sequence[Field], windows: Windows, compression: str
) -> tuple[Shard, np.ndarray]:
    """Reads a shard back, once.

    Args:
      written: what was counted on the way in.
      fields: of a record.
      windows: of the dataset.
      compression: none or gzip.

    Returns:
      what the manifest says of it, and its blocks, see `cut_blocks`.

    Raises:
      JobFailed: if it does not hold what was counted.
    """
    tally = written.tally
    measured = [np.empty([2, 0], np.int64)]

    def rows_of_records(shard: Counted) -> Iterator[np.ndarray]:
        for batch in read_frames(unpacked(shard, compression)):
            lengths = measured_records(Records.of(batch), fields, windows)
            measured.append(lengths)
            yield lengths[1]

    try:
        with storage.open_stream(written.path) as file:
            shard = Counted(file)
            facts = measure_shard(shard, rows_of_records(shard), windows)
    except JobFailed as failed:
        raise JobFailed(f"{written.path}: {failed.reason}") from None
    except (Damaged, OSError) as error:
        raise JobFailed(f"{written.path}: cannot be read back: {error}") from None
    counted = {"records": tally.records, "windows": tally.windows, "rows": tally.rows}
    if wrong := differences(facts, counted):
        raise JobFailed(f"{written.path}: what was read back is not what was written: {'; '.join(wrong)}")
    sizes, rows = np.concatenate(measured, axis=1)
    return facts.model_copy(update={"folder": written.folder}), cut_blocks(sizes, rows, windows)


class VerifyShard(beam.DoFn):
    """Written, with the fields as a side input -> (Written, manifest.Shard, its blocks int64 [blocks, 3])."""

    def __init__(self, windows: Windows, compression: str, progress: Progress):
        self._windows, self._compression, self._progress = windows, compression, progress

    def process(self, written: Written, fields: list[Field]) -> Iterator[tuple[Written, Shard, np.ndarray]]:
        yield written, *verify_shard(written, fields, self._windows, self._compression)
        self._progress.add("verify", assets=1, rows=written.tally.rows)
