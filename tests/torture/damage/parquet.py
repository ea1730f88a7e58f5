"""Damages of Parquet files: cut, flipped and empty ones; columns that are missing, moved or of other types."""

import io
from decimal import Decimal
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..fleet import Fleet, Part
from .kind import ROWS, break_file, break_values, damage, is_mixed, some_feature, some_part, spoil, with_type

UNREADABLE = "cannot be read|is empty|not a Parquet|damaged|broken"


@damage(format="parquet", kinds=ROWS)
def truncated(fleet: Fleet, chance: Random) -> None:
    """A file that was cut at any byte is a reject."""
    part, share = some_part(fleet, chance), chance.random()
    part.mend.append(lambda data: data[: int(share * (len(data) - 1))])
    break_file(fleet, part, UNREADABLE)


@damage(format="parquet", kinds=ROWS)
def truncated_by_a_byte(fleet: Fleet, chance: Random) -> None:
    """A file without its last byte is a reject."""
    part = some_part(fleet, chance)
    part.mend.append(lambda data: data[:-1])
    break_file(fleet, part, UNREADABLE)


@damage(format=["parquet", "csv", "csv.gz"], kinds=ROWS)
def zero_bytes(fleet: Fleet, chance: Random) -> None:
    """A file of no bytes is a reject: an upload that failed."""
    part = some_part(fleet, chance)
    part.mend.append(lambda data: b"")
    break_file(fleet, part, "empty")


@damage(format="parquet", kinds=ROWS)
def garbage(fleet: Fleet, chance: Random) -> None:
    """Bytes at random under the name of a Parquet file are a reject."""
    part = some_part(fleet, chance)
    noise = chance.randbytes(chance.randint(1, 2000))
    part.mend.append(lambda data: noise)
    break_file(fleet, part, UNREADABLE)


@damage(format="parquet", kinds=ROWS)
def text_named_parquet(fleet: Fleet, chance: Random) -> None:
    """A web page of an error under the name of a Parquet file is a reject."""
    part = some_part(fleet, chance)
    part.mend.append(lambda data: b"<html><body>403 Forbidden</body></html>\n")
    break_file(fleet, part, UNREADABLE)


@damage(format="parquet", kinds=ROWS)
def only_the_magic_word(fleet: Fleet, chance: Random) -> None:
    """PAR1 and nothing else is a reject."""
    part = some_part(fleet, chance)
    size = chance.choice([0, 1, 4, 2**31 - 1])
    part.mend.append(lambda data: b"PAR1" + size.to_bytes(4, "little") + b"PAR1")
    break_file(fleet, part, UNREADABLE)


@damage(format="parquet", naming=["stem", "pattern"], row_group=None, kinds=ROWS)
def a_broken_page(fleet: Fleet, chance: Random) -> None:
    """A page of a sensor's values that no decoder can read is a reject."""
    part, (_, name) = some_part(fleet, chance), some_feature(fleet, chance)
    part.form["parquet"] = {"compression": "zstd"}
    part.mend.append(lambda data: _overwritten(data, name))
    break_values(fleet, part, UNREADABLE)


def _overwritten(data: bytes, name: str) -> bytes:
    found = pq.read_metadata(io.BytesIO(data)).row_group(0)
    column = next(found.column(i) for i in range(found.num_columns) if found.column(i).path_in_schema == name)
    at = column.dictionary_page_offset or column.data_page_offset
    return data[:at] + b"\xff" * column.total_compressed_size + data[at + column.total_compressed_size :]


@damage(format="parquet", naming=["stem", "pattern"], row_group=None, kinds=ROWS)
def a_flipped_bit_under_a_checksum(fleet: Fleet, chance: Random) -> None:
    """A bit that flips in a page with a checksum is seen, and the file a reject: no wrong value comes out."""
    part, (_, name), share = some_part(fleet, chance), some_feature(fleet, chance), chance.random()
    part.form["parquet"] = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    part.mend.append(lambda data: _flipped(data, name, share))
    break_values(fleet, part, "CRC|checksum|cannot be read")


def _flipped(data: bytes, name: str, share: float) -> bytes:
    """One bit of the plain values of a column, which stand at the end of its only page."""
    found = pq.read_metadata(io.BytesIO(data)).row_group(0)
    column = next(found.column(i) for i in range(found.num_columns) if found.column(i).path_in_schema == name)
    end = column.data_page_offset + column.total_compressed_size
    there = column.num_values - (column.statistics.null_count if column.statistics else 0)
    if not there:
        return data
    at = end - 1 - int(share * (4 * there - 1))
    changed = bytearray(data)
    changed[at] ^= 0x10
    return bytes(changed)


@damage(format="parquet", row_group=None, label=None, split=["asset", "time", "path"])
def flipped_bits(fleet: Fleet, chance: Random) -> None:
    """Bits that flip anywhere, without a checksum: a reject, or what a plain read of the whole file gives."""
    part = some_part(fleet, chance)
    places = [chance.random() for _ in range(chance.choice([1, 1, 3]))]
    seen: list[bytes] = []

    def flip(data: bytes) -> bytes:
        changed = bytearray(data)
        for share in places:
            changed[int(share * len(data))] ^= 1 << chance.randrange(8)
        seen.append(bytes(changed))
        return bytes(changed)

    part.mend.append(flip)
    place = next(i for i, one in enumerate(fleet.parts) if one is part)

    def broken(other: Fleet) -> None:
        other.parts[place].broken = "."

    def all_of_it(other: Fleet) -> None:
        other.rejected |= dict.fromkeys(other.parts[place].asset, ".")

    def as_decoded(other: Fleet) -> None:
        _decode(other, other.parts[place], seen[0])

    fleet.variants += [broken, as_decoded, *([all_of_it] if is_mixed(fleet) else [])]


FIRST_SECOND, LAST_SECOND = (int(np.datetime64(f"{year}-01-01", "s").astype(int)) for year in (1824, 2116))


def _decode(fleet: Fleet, part: Part, data: bytes) -> None:
    """The rows that Arrow finds in the bytes when it reads them in one go; a time out of range costs its row."""
    table = pq.read_table(io.BytesIO(data))
    type_, scale = table["t"].type, fleet.clock.tick
    time = table["t"]
    if pa.types.is_date32(type_):
        scale, time = 86_400 * 10**9, time.cast(pa.int32())
    elif not pa.types.is_floating(type_):
        time = time.cast(pa.int64())
    if pa.types.is_timestamp(type_):
        scale = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[type_.unit]
    numbers, before = time.to_numpy(), part.time
    part.time = (
        np.round(numbers * scale).astype(np.int64) if numbers.dtype.kind == "f" else numbers.astype(np.int64) * scale
    )
    if pa.types.is_temporal(type_):
        seconds = numbers.astype(float) * (scale / 10**9)
        for row in np.flatnonzero((seconds < FIRST_SECOND) | (seconds >= LAST_SECOND)).tolist():
            part.time[row] = before[row]
            spoil(part, row, "out of range", timed=False)
    part.values = np.stack([table[name].to_numpy() for name in fleet.features], 1).astype(np.float32)
    if is_mixed(fleet):
        part.asset = table["machine"].to_pylist()


@damage(format="parquet", kinds=ROWS)
def swapped_columns(fleet: Fleet, chance: Random) -> None:
    """Each file has its columns in another order: they go by their names."""
    for part in fleet.parts:
        order = chance.random()
        part.form["order"] = lambda name, order=order: Random(f"{order} {name}").random()


@damage(features=[2, 3, 4], kinds=ROWS)
def a_column_is_missing(fleet: Fleet, chance: Random) -> None:
    """A file without one of the columns is a reject that names the column."""
    part, (_, name) = some_part(fleet, chance), some_feature(fleet, chance)
    part.form["drop"] = [name]
    break_file(fleet, part, f"{name}.*missing")


@damage(alone=True, features=[2, 3, 4])
def a_column_is_missing_and_may_be(fleet: Fleet, chance: Random) -> None:
    """With missing_columns: missing, its values are missing ones."""
    fleet.job["source"]["missing_columns"] = "missing"
    part, (i, name) = some_part(fleet, chance), some_feature(fleet, chance)
    part.form["drop"] = [name]
    part.values[:, i] = np.nan


@damage()
def the_time_column_is_missing(fleet: Fleet, chance: Random) -> None:
    """A file without its time column is a reject that names it."""
    part = some_part(fleet, chance)
    part.form["drop"] = ["t"]
    break_file(fleet, part, "t.*missing")


@damage(kinds=ROWS)
def a_column_more(fleet: Fleet, chance: Random) -> None:
    """A column that only one file has is not taken by a glob."""
    part = some_part(fleet, chance)
    part.extra["x99"] = [float(chance.randrange(100)) for _ in range(len(part))]


@damage(kinds=ROWS)
def a_column_more_in_front(fleet: Fleet, chance: Random) -> None:
    """A column of row numbers in front, such as pandas writes, moves nothing."""
    for part in fleet.parts:
        part.extra["Unnamed: 0"] = [float(i) for i in range(len(part))]
        part.form["order"] = lambda name: name != "Unnamed: 0"


@damage(format="parquet", kinds=ROWS)
def two_columns_of_one_name(fleet: Fleet, chance: Random) -> None:
    """A file with two columns of a feature's name is a reject: nobody knows which one counts."""
    part, (_, name) = some_part(fleet, chance), some_feature(fleet, chance)
    part.form["rename"] = {"load": name}
    if fleet.plan.kind == "table":
        part.form["rename"] = {"t": name}
    elif fleet.job.get("label", {}).get("column") == "load":
        part.form["rename"] = {"phase" if fleet.plan.split != "column" else "state": name}
    break_file(fleet, part, f"{name}|two|twice|duplicate")


TYPES = {
    "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
    "float16": pa.float16(), "float64": pa.float64(), "decimal": pa.decimal128(12, 3),
}  # fmt: skip


@damage(format="parquet", kinds=ROWS)
def other_types(fleet: Fleet, chance: Random) -> None:
    """A sensor as integers, floats or decimals of any size, another type in each file: the same numbers."""
    i, name = some_feature(fleet, chance)
    for part in fleet.parts:
        part.values[:, i] = np.clip(np.round(part.values[:, i]), -100, 100)
        type_ = TYPES[chance.choice(sorted(TYPES))]
        with_type(part, name, lambda column, type_=type_: _typed(column, type_))


def _typed(column: np.ndarray, type_: pa.DataType) -> pa.Array:
    there = [None if not np.isfinite(value) else float(value) for value in column]
    if pa.types.is_decimal(type_):
        return pa.array([None if value is None else Decimal(f"{value:.3f}") for value in there], type_)
    if pa.types.is_integer(type_):
        return pa.array([None if value is None else int(value) for value in there], type_)
    return pa.array(np.array([np.nan if value is None else value for value in there], type_.to_pandas_dtype()))


@damage(format="parquet", kinds=ROWS)
def dictionaries(fleet: Fleet, chance: Random) -> None:
    """Columns of dictionary type (pandas' categories), also the asset, hold what their values say."""
    _, name = some_feature(fleet, chance)
    for part in fleet.parts:
        with_type(part, name, lambda column: pa.array(column, mask=np.isnan(column)).dictionary_encode())
        with_type(part, "machine", lambda column: pa.array(column).dictionary_encode())
        with_type(part, "phase", lambda column: pa.array(column).dictionary_encode())


@damage(format="parquet", kinds=ROWS)
def bools(fleet: Fleet, chance: Random) -> None:
    """A switch, true or false or missing, is 1 or 0 or missing."""
    i, name = some_feature(fleet, chance)
    for part in fleet.parts:
        column = part.values[:, i]
        part.values[:, i] = np.where(np.isnan(column), np.nan, column > i)
        with_type(part, name, lambda column: pa.array([None if np.isnan(v) else bool(v) for v in column], pa.bool_()))


def _of_type(fleet: Fleet, chance: Random, make: object, reason: str) -> None:
    part, (_, name) = some_part(fleet, chance), some_feature(fleet, chance)
    with_type(part, name, make)
    break_file(fleet, part, reason)


@damage(format="parquet", kinds=ROWS)
def a_column_of_text(fleet: Fleet, chance: Random) -> None:
    """A file in which a sensor is text is a reject that says so."""
    _of_type(fleet, chance, lambda column: pa.array([str(v) for v in column]), "string|text|number")


@damage(format="parquet", kinds=ROWS)
def a_column_of_lists(fleet: Fleet, chance: Random) -> None:
    """A file in which a sensor is a list is a reject that says so."""
    _of_type(fleet, chance, lambda column: pa.array([[float(v)] for v in column]), "list|number")


@damage(format="parquet", kinds=ROWS)
def a_column_of_structs(fleet: Fleet, chance: Random) -> None:
    """A file in which a sensor is a struct is a reject that says so."""
    _of_type(fleet, chance, lambda column: pa.array([{"v": float(v)} for v in column]), "struct|number")


@damage(format="parquet", kinds=ROWS)
def a_column_of_dates(fleet: Fleet, chance: Random) -> None:
    """A file in which a sensor is a date is a reject that says so."""
    _of_type(
        fleet, chance, lambda column: pa.array(np.arange(len(column), dtype=np.int32)).cast(pa.date32()), "date|number"
    )


@damage(format="parquet", kinds=ROWS)
def a_column_of_nothing(fleet: Fleet, chance: Random) -> None:
    """A column of Arrow's null type holds missing values."""
    part, (i, name) = some_part(fleet, chance), some_feature(fleet, chance)
    part.values[:, i] = np.nan
    with_type(part, name, lambda column: pa.nulls(len(column)))


@damage(format="parquet", kinds=ROWS)
def nested_columns_beside(fleet: Fleet, chance: Random) -> None:
    """Columns of lists and structs that nobody asks for are passed over."""
    for part in fleet.parts:
        part.extra["a_tree"] = [{"b": [1, 2], "c": {"d": i}} for i in range(len(part))]
        with_type(part, "a_tree", pa.array)
        part.form["order"] = lambda name: name


@damage(format="parquet", kinds=ROWS)
def other_encodings(fleet: Fleet, chance: Random) -> None:
    """Any compression, page version and encoding: the same rows."""
    for part in fleet.parts:
        if "parquet" in part.form:  # what was done to its bytes hangs on how they are written
            continue
        options = {
            "compression": chance.choice(["none", "snappy", "gzip", "zstd", "lz4", "brotli"]),
            "data_page_version": chance.choice(["1.0", "2.0"]),
            "use_dictionary": chance.choice([True, False]),
            "data_page_size": chance.choice([64, 1 << 20]),
            "version": chance.choice(["1.0", "2.4", "2.6"]),
        }
        if options["version"] == "1.0" and fleet.clock.arrow.startswith("timestamp[ns"):
            options["version"] = "2.6"  # which alone knows nanoseconds
        if not options["use_dictionary"] and chance.random() < 0.5:
            plain = [name for name in fleet.features if "arrays" not in part.form]
            options["column_encoding"] = dict.fromkeys(plain, "BYTE_STREAM_SPLIT")
        part.form["parquet"] = options


@damage(format="parquet", row_group=1, kinds=ROWS)
def row_groups_of_one_row(fleet: Fleet, chance: Random) -> None:
    """A row group for each row, as some loggers write: the same windows."""


@damage(format="parquet", units=True, row_group=1000, rows=300, resample=None, kinds=ROWS)
def one_row_group_in_many_units(fleet: Fleet, chance: Random) -> None:
    """All of a file in one row group, which several units share."""


@damage(format="parquet", units=True, row_group=[1, 3, 7], rows=300, resample=None, kinds=ROWS)
def small_row_groups_in_many_units(fleet: Fleet, chance: Random) -> None:
    """Units that begin in the middle of row groups, and row groups in the middle of units."""


@damage(format="parquet", naming="pattern", files=[2, 3, 4], last=True)
def an_empty_part(fleet: Fleet, chance: Random) -> None:
    """A file without rows, among others of its asset, is passed over."""
    some_part(fleet, chance).take([])


@damage(format="parquet", naming="stem", last=True)
def an_asset_without_rows(fleet: Fleet, chance: Random) -> None:
    """An asset whose only file holds no rows is a reject."""
    some_part(fleet, chance).take([])


@damage(format="parquet", alone=True, features=2, assets=4, rows=40, label=None, length=5, naming="stem")
def ten_thousand_columns(fleet: Fleet, chance: Random) -> None:
    """10,000 columns of which two are asked for."""
    for part in fleet.parts:
        for i in range(10_000):
            part.extra[f"y{i}"] = [0.5] * len(part)


@damage(format="parquet", alone=True, features=10_000, assets=4, rows=40, label=None, length=5, resample=None,
        units=False, naming="stem", missing=0.0, scale="none")  # fmt: skip
def ten_thousand_features(fleet: Fleet, chance: Random) -> None:
    """10,000 columns that are all asked for."""
    for part in fleet.parts:
        part.take(slice(0, 8))
    fleet.parts = [part for part in fleet.parts if len(part)]


@damage(format="parquet", alone=True, assets=63, rows=20, features=1, naming="stem", odd_names=False,
        resample=None, length=5, label=None)  # fmt: skip
def more_files_than_are_sampled(fleet: Fleet, chance: Random) -> None:
    """Of 63 files the first 29 have a column more: a glob does not take what fewer than half of the files have."""
    for part in sorted(fleet.parts, key=lambda part: part.path)[:29]:
        part.extra["x9"] = [1.5] * len(part)
