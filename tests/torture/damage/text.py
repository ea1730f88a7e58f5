"""Damages and dialects of text files: delimiters, encodings, headers, cells, compression."""

import bz2
import gzip
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from ..fleet import Fleet
from ..write import time_text
from .kind import (
    ROWS,
    break_file,
    break_values,
    damage,
    is_mixed,
    rename,
    some_feature,
    some_part,
    spoil,
    suffix_of,
    with_csv,
    with_text,
)

CSV = ["csv", "csv.gz"]
PLAIN = "csv"
STAMPS = ["timestamp_s", "timestamp_ms", "timestamp_us", "timestamp_ns"]
UNREADABLE = "cannot be read|is empty|damaged|broken"


def _all(fleet: Fleet, **dialect: Any) -> None:
    for part in fleet.parts:
        with_csv(part, **dialect)


def _options(fleet: Fleet, chance: Random, **options: Any) -> None:
    """What `auto` finds out is written into the job file by half of the users."""
    if chance.random() < 0.5:
        fleet.job["source"]["csv"] = {**fleet.job["source"].get("csv", {}), **options}


# What has always been read


@damage(format=CSV, kinds=ROWS)
def quoted_cells(fleet: Fleet, chance: Random) -> None:
    """Cells and names in quotes are read without them."""
    _all(fleet, quote_all=True)


@damage(format=CSV, kinds=ROWS)
def carriage_returns(fleet: Fleet, chance: Random) -> None:
    """Lines that end in CR LF."""
    _all(fleet, newline="\r\n")


@damage(format=CSV, kinds=ROWS)
def no_last_newline(fleet: Fleet, chance: Random) -> None:
    """A last line without an end is a row."""
    _all(fleet, last_newline=False)


@damage(format=CSV, kinds=ROWS)
def blank_lines(fleet: Fleet, chance: Random) -> None:
    """Lines without anything are passed over."""
    part = some_part(fleet, chance, 5)
    with_csv(part, between={2: ["", ""]}, after=["", ""])


@damage(format=CSV, kinds=ROWS)
def spaces_in_cells(fleet: Fleet, chance: Random) -> None:
    """Spaces around numbers say nothing."""
    _, name = some_feature(fleet, chance)
    for part in fleet.parts:
        with_text(part, name, lambda column: ["" if np.isnan(v) else f" {v:.3f} " for v in column])


@damage(format=CSV, kinds=ROWS)
def scientific_numbers(fleet: Fleet, chance: Random) -> None:
    """1.5e+00 is 1.5."""
    _, name = some_feature(fleet, chance)
    for part in fleet.parts:
        with_text(part, name, lambda column: ["" if np.isnan(v) else f"{v:.8e}" for v in column])


@damage(format=CSV, kinds=ROWS)
def whole_numbers_in_some_files(fleet: Fleet, chance: Random) -> None:
    """A sensor that is written as integers in one file and as decimals in another."""
    i, name = some_feature(fleet, chance)
    for part in (some_part(fleet, chance), some_part(fleet, chance)):
        part.values[:, i] = np.round(part.values[:, i])
        with_text(part, name, lambda column: ["" if np.isnan(v) else str(int(v)) for v in column])


@damage(format=CSV, kinds=ROWS)
def switches(fleet: Fleet, chance: Random) -> None:
    """A column of true and false is 1 and 0."""
    i, name = some_feature(fleet, chance)
    for part in fleet.parts:
        column = part.values[:, i]
        part.values[:, i] = np.where(np.isnan(column), np.nan, column > i)
        words = chance.choice([("false", "true"), ("False", "True")])
        with_text(part, name, lambda column, w=words: ["" if np.isnan(v) else w[int(v)] for v in column])


@damage(format=CSV, kinds=ROWS)
def nan_written_out(fleet: Fleet, chance: Random) -> None:
    """The usual words for nothing are missing values."""
    _all(fleet, null=chance.choice(["NaN", "nan", "NA", "null", "NULL", "N/A", "#N/A"]))
    for part in fleet.parts:
        part.values[chance.randrange(len(part)), 0] = np.nan


@damage(format=CSV, last=True, kinds=ROWS)
def a_header_and_no_rows(fleet: Fleet, chance: Random) -> None:
    """An asset whose only file is a header is a reject; among other files it is passed over."""
    some_part(fleet, chance).take([])


@damage(format=CSV, kinds=ROWS)
def binary_named_csv(fleet: Fleet, chance: Random) -> None:
    """A Parquet file under the name of a CSV is a reject."""
    part = some_part(fleet, chance)
    noise = b"PAR1\x00\x00\xff\xfe" + chance.randbytes(300)
    gz = part.path.endswith(".gz")
    part.mend.append(lambda data: gzip.compress(noise) if gz else noise)
    break_file(fleet, part, "UTF-8|encod|text|cannot be read|column")


@damage(format="csv.gz", kinds=ROWS)
def truncated_gzip(fleet: Fleet, chance: Random) -> None:
    """A compressed file that was cut is a reject, however much of it could be read."""
    part, share = some_part(fleet, chance), chance.uniform(0.1, 0.99)
    part.mend.append(lambda data: data[: int(len(data) * share)])
    break_values(fleet, part, UNREADABLE + "|truncat|UTF-8|column")


@damage(format="csv.gz", kinds=ROWS)
def text_named_gzip(fleet: Fleet, chance: Random) -> None:
    """Plain text under the name of a compressed file is a reject, or is read as the text that it is."""
    part = some_part(fleet, chance)
    part.mend.append(gzip.decompress)
    place = next(i for i, one in enumerate(fleet.parts) if one is part)
    fleet.variants.append(lambda other: setattr(other.parts[place], "broken", "."))


@damage(format="csv.gz", kinds=ROWS)
def gzip_in_pieces(fleet: Fleet, chance: Random) -> None:
    """Several gzip members in one file, as `cat` makes them, are one text: none of its rows is lost."""
    for part in fleet.parts:  # before what breaks them
        part.mend.insert(0, lambda data: b"".join(gzip.compress(piece) for piece in _halves(gzip.decompress(data))))


def _halves(text: bytes) -> list[bytes]:
    return [text[: len(text) // 2], text[len(text) // 2 :]]


@damage(format="csv.gz", kinds=ROWS)
def a_wrong_sum_in_gzip(fleet: Fleet, chance: Random) -> None:
    """A compressed file whose check sum does not fit is a reject."""
    part = some_part(fleet, chance)
    part.mend.append(lambda data: data[:-8] + bytes(b ^ 0x5A for b in data[-8:-4]) + data[-4:])
    break_values(fleet, part, UNREADABLE + "|check")


@damage(format=PLAIN, label=None, split=["asset", "time", "path"])
def truncated_text(fleet: Fleet, chance: Random) -> None:
    """A text cut at any byte holds the rows in front of the cut; a last line that is too short is set aside."""
    part, share = some_part(fleet, chance), chance.random()
    place = next(i for i, one in enumerate(fleet.parts) if one is part)
    seen: list[bytes] = []

    def cut(data: bytes) -> bytes:
        seen.append(data[: int(len(data) * share)])
        return seen[0]

    def as_read(other: Fleet) -> None:
        own = other.parts[place]
        lines = seen[0].decode().split("\n")
        complete = len(own.extra) + own.values.shape[1] + 1 + (other.plan.naming == "column")
        rows = [line for line in lines[1:] if line]
        short = bool(rows) and rows[-1].count(",") != complete - 1
        if not lines[0].startswith("t,") or lines[0].count(",") != complete - 1 or (short and is_mixed(other)):
            own.broken = "."
            return
        own.take(slice(0, len(rows)))
        if short:
            spoil(own, len(rows) - 1, "line.*expected", timed=False)

    def broken(other: Fleet) -> None:
        other.parts[place].broken = "."

    part.mend.append(cut)
    fleet.variants += [as_read, broken]


@damage(format=CSV, label="classes", split=["asset", "time"])
def quoted_delimiters(fleet: Fleet, chance: Random) -> None:
    """A delimiter, a quote and a newline inside of quotes belong to the cell."""
    names = {"ok": "o,k", "worn": 'w"orn', "broken": "bro ken"}
    for part in fleet.parts:
        part.extra["state"] = [names[value] for value in part.extra["state"]]
    fleet.job["label"] = {**fleet.job["label"], "classes": list(names.values())}


# Dialects: found out, or said by the job file


@damage(format=CSV, kinds=ROWS)
def semicolons(fleet: Fleet, chance: Random) -> None:
    """Semicolons between cells."""
    _all(fleet, delimiter=";")
    _options(fleet, chance, delimiter=";")


@damage(format=CSV, kinds=ROWS)
def tabs(fleet: Fleet, chance: Random) -> None:
    """Tabs between cells."""
    _all(fleet, delimiter="\t")
    _options(fleet, chance, delimiter="\t")


@damage(format=CSV, kinds=ROWS)
def bars(fleet: Fleet, chance: Random) -> None:
    """Bars between cells."""
    _all(fleet, delimiter="|")
    _options(fleet, chance, delimiter="|")


@damage(format=CSV, clock=["integer", "epoch_s", "epoch_ms", *STAMPS], kinds=ROWS)
def decimal_commas(fleet: Fleet, chance: Random) -> None:
    """A spreadsheet's 1,5 between semicolons is 1.5."""
    _all(fleet, delimiter=";", decimal=",")
    _options(fleet, chance, delimiter=";", decimal=",")


@damage(format=CSV, clock=["integer", *STAMPS], kinds=ROWS)
def thousands(fleet: Fleet, chance: Random) -> None:
    """1.234,5 with the thousands separator that the job file names is 1234.5."""
    i, _ = some_feature(fleet, chance)
    for part in fleet.parts:
        part.values[:, i] += 12_345
    _all(fleet, delimiter=";", decimal=",", thousands=".")
    fleet.job["source"]["csv"] = {"thousands": "."}


@damage(format=CSV, kinds=ROWS)
def byte_order_mark(fleet: Fleet, chance: Random) -> None:
    """A byte order mark is no part of the first column's name."""
    _all(fleet, bom=b"\xef\xbb\xbf")


@damage(format=CSV, kinds=ROWS)
def utf_16(fleet: Fleet, chance: Random) -> None:
    """UTF-16 with its mark, as spreadsheets save it."""
    _all(fleet, encoding=chance.choice(["utf-16-le", "utf-16-be"]))
    for part in fleet.parts:
        form = part.form["csv"]
        form["bom"] = b"\xff\xfe" if form["encoding"].endswith("le") else b"\xfe\xff"
    _options(fleet, chance, encoding="utf-16")


@damage(format=CSV, kinds=ROWS)
def latin_1(fleet: Fleet, chance: Random) -> None:
    """Latin-1 with a header that is not ASCII."""
    for part in fleet.parts:
        part.extra["größe"] = [1.5] * len(part)
    _all(fleet, encoding="latin-1")
    _options(fleet, chance, encoding="latin-1")


@damage(format=CSV, odd_names=False)
def one_file_in_latin_1(fleet: Fleet, chance: Random) -> None:
    """One file in Latin-1 among others in UTF-8: read with the encoding that it has, or a reject that says so."""
    part = some_part(fleet, chance)
    part.extra["größe"] = [1.5] * len(part)
    with_csv(part, encoding="latin-1")
    place = next(i for i, one in enumerate(fleet.parts) if one is part)
    fleet.variants.append(lambda other: setattr(other.parts[place], "broken", "UTF-8|encod"))


@damage(format=CSV, kinds=ROWS)
def lines_before_the_header(fleet: Fleet, chance: Random) -> None:
    """Lines of a logger's name and date before the header are skipped."""
    before = ["Logger 4711", "Exported 2024-01-01 by somebody"][: chance.randint(1, 2)]
    _all(fleet, before=before)
    _options(fleet, chance, skip_lines=len(before))


@damage(format=CSV, kinds=ROWS)
def a_row_of_units(fleet: Fleet, chance: Random) -> None:
    """A row of units below the header is skipped."""
    for part in fleet.parts:
        names = 1 + (fleet.plan.naming == "column") + fleet.plan.features + len(part.extra)
        with_csv(part, units=[",".join(["s", *["bar"] * (names - 1)])])
    _options(fleet, chance, skip_after_header=1)


@damage(format=CSV, kinds=ROWS)
def comment_lines(fleet: Fleet, chance: Random) -> None:
    """Lines that begin with # are skipped, in front and in between."""
    _all(fleet, before=["# made by a logger", "# on a Monday"])
    if chance.random() < 0.5:
        fleet.job["source"]["csv"] = {"comment": "#"}
        _all(fleet, between={3: ["# paused"]})


@damage(format=CSV, kinds=ROWS)
def footer_lines(fleet: Fleet, chance: Random) -> None:
    """The last lines, sums perhaps, are left out where the job file says how many."""
    _all(fleet, after=["Total;;17", "end of export"])
    fleet.job["source"]["csv"] = {"skip_last": 2}


@damage(format=CSV, kinds=ROWS)
def words_for_nothing(fleet: Fleet, chance: Random) -> None:
    """Words of the user's own for missing values."""
    word = chance.choice(["-", "--", "---", "missing", "-9999", "?"])
    _all(fleet, null=word)
    for part in fleet.parts:
        part.values[chance.randrange(len(part)), 0] = np.nan
    fleet.job["source"]["csv"] = {"null_words": ["", word]}


@damage(alone=True, format=CSV, kinds=ROWS)
def no_header(fleet: Fleet, chance: Random) -> None:
    """Files without a header, whose columns the job file names."""
    part = fleet.parts[0]
    names = ["t", *(["machine"] if fleet.plan.naming == "column" else []), *fleet.features, *part.extra]
    _all(fleet, header=False)
    fleet.job["source"]["csv"] = {"header": False, "names": names}


@damage(format=CSV, kinds=ROWS)
def a_spreadsheets_empty_columns(fleet: Fleet, chance: Random) -> None:
    """A header t,x0,, with columns of no name at its end: they are passed over."""
    _all(fleet, header_tail=",,", row_tail=",,")


@damage(format=CSV, last=True, kinds=ROWS)
def a_header_twice(fleet: Fleet, chance: Random) -> None:
    """Two columns of a feature's name in one file: a reject, as nobody knows which one counts."""
    part, (_, name) = some_part(fleet, chance), some_feature(fleet, chance)
    delimiter = part.form.get("csv", {}).get("delimiter", ",")
    with_csv(part, header_tail=f"{delimiter}{name}", row_tail=f"{delimiter}7.5")
    break_file(fleet, part, f"{name}|two|twice|duplicate")


@damage(format="parquet", naming="column")
def a_name_that_is_not_utf_8(fleet: Fleet, chance: Random) -> None:
    """An asset's name of bytes that are no text: the file is a reject, and the others go on."""
    part = some_part(fleet, chance)
    at = chance.randrange(len(part))

    def names(column: list[str]) -> pa.Array:
        raw = [name.encode() for name in column]
        raw[at] = b"\xff\xfem"
        return pa.StringArray.from_buffers(len(raw), *pa.array(raw, pa.binary()).buffers()[1:])

    part.form["arrays"] = {**part.form.get("arrays", {}), "machine": names}
    break_file(fleet, part, "UTF-8|name")


# Suffixes, compression and other formats


def _renamed(fleet: Fleet, chance: Random, suffixes: list[str]) -> None:
    for part in fleet.parts:
        rename(part, chance.choice(suffixes))


@damage(format="csv", kinds=ROWS)
def upper_case_suffixes(fleet: Fleet, chance: Random) -> None:
    """.CSV is .csv."""
    for part in fleet.parts:
        part.path = part.path.removesuffix(".csv") + chance.choice([".CSV", ".Csv", ".csv"])


@damage(format="csv", kinds=ROWS)
def other_names_of_text(fleet: Fleet, chance: Random) -> None:
    """.tsv holds tabs, .txt whatever it holds."""
    suffix = chance.choice([".tsv", ".txt"])
    for part in fleet.parts:
        part.path = part.path.removesuffix(".csv") + suffix
        with_csv(part, delimiter="\t" if suffix == ".tsv" else ",")


@damage(format="parquet", kinds=ROWS)
def other_names_of_parquet(fleet: Fleet, chance: Random) -> None:
    """.pq, .parq and .PARQUET are Parquet."""
    suffix = chance.choice([".pq", ".parq", ".PARQUET"])
    for part in fleet.parts:
        part.path = part.path.removesuffix(".parquet") + suffix


@damage(format="csv", kinds=ROWS)
def other_compressions(fleet: Fleet, chance: Random) -> None:
    """.bz2, .zst and .gz are unpacked."""
    pack = {
        ".bz2": bz2.compress,
        ".gz": gzip.compress,
        ".zst": lambda data: pa.compress(data, "zstd", asbytes=True),
    }
    for part in fleet.parts:
        suffix = chance.choice(sorted(pack))
        part.path += suffix
        part.mend.append(pack[suffix])


@damage(format="jsonl", kinds=ROWS)
def json_lines(fleet: Fleet, chance: Random) -> None:
    """A JSON object on each line; a key that is not there is a missing value."""


@damage(format="json", kinds=ROWS)
def json_arrays(fleet: Fleet, chance: Random) -> None:
    """A JSON array of objects; a key that is not there is a missing value."""


@damage(format="parquet", kinds=ROWS)
def feather(fleet: Fleet, chance: Random) -> None:
    """Arrow IPC files, as pandas' to_feather writes them."""
    with_arrow(fleet, chance)


def with_arrow(fleet: Fleet, chance: Random) -> None:
    """Writes all files as Arrow's."""
    import io

    import pyarrow.feather
    import pyarrow.parquet as pq

    def change(data: bytes) -> bytes:
        sink = io.BytesIO()
        pyarrow.feather.write_feather(pq.read_table(io.BytesIO(data)), sink)
        return sink.getvalue()

    suffix = chance.choice([".feather", ".arrow", ".ipc"])
    for part in fleet.parts:
        part.path = part.path.removesuffix(suffix_of(part)) + suffix
        part.mend.append(change)


# Times as text


@damage(format=CSV, clock=["timestamp_s", "date"])
def german_dates(fleet: Fleet, chance: Random) -> None:
    """31.12.2024 23:59:59 with the format that the job file gives."""
    _written(fleet, "%d.%m.%Y %H:%M:%S")


@damage(format=CSV, clock=["timestamp_s", "date"])
def us_dates(fleet: Fleet, chance: Random) -> None:
    """12/31/2024 23:59 with the format that the job file gives."""
    _written(fleet, "%m/%d/%Y %H:%M:%S")


@damage(format="parquet", clock=STAMPS)
def times_as_text_in_parquet(fleet: Fleet, chance: Random) -> None:
    """Parquet with times as ISO text."""
    for part in fleet.parts:
        part.form["arrays"] = {
            **part.form.get("arrays", {}),
            "t": lambda ticks: pa.array([time_text(int(tick), fleet.clock) for tick in ticks]),
        }


def _moment(tick: int) -> Any:
    return np.datetime64(tick // 10**9, "s").item()


def _written(fleet: Fleet, pattern: str) -> None:
    fleet.job["source"]["time"]["format"] = pattern
    for part in fleet.parts:
        with_text(part, "t", lambda ticks: [_moment(int(tick)).strftime(pattern) for tick in ticks])


@damage(format=CSV, clock=["timestamp_s", "date"])
def date_and_time_in_two_columns(fleet: Fleet, chance: Random) -> None:
    """A column for the date and one for the time of day."""
    fleet.job["source"]["time"]["column"] = ["day", "clock"]
    for part in fleet.parts:
        moments = [_moment(int(tick)) for tick in part.time]
        part.extra["day"] = [moment.strftime("%Y-%m-%d") for moment in moments]
        part.extra["clock"] = [moment.strftime("%H:%M:%S") for moment in moments]
        part.form["drop"] = [*part.form.get("drop", ()), "t"]


@damage(format=CSV, clock="timestamp_s", split="asset", rows=[90, 140])
def local_times_with_a_zone(fleet: Fleet, chance: Random) -> None:
    """Times of day in Berlin, where the job file says so, are an hour or two ahead of UTC."""
    from zoneinfo import ZoneInfo

    fleet.job["source"]["time"]["zone"] = "Europe/Berlin"
    for part in fleet.parts:
        part.time += 60 * 86_400 * 10**9

    def local(ticks: Any) -> list[str]:
        utc = [np.datetime64(int(tick) // 10**9, "s").item().replace(tzinfo=ZoneInfo("UTC")) for tick in ticks]
        return [moment.astimezone(ZoneInfo("Europe/Berlin")).strftime("%Y-%m-%d %H:%M:%S") for moment in utc]

    for part in fleet.parts:
        with_text(part, "t", local)


@damage(naming="stem", clock="integer", resample=None, jitter=False, holes=False, last=True)
def row_number_as_time(fleet: Fleet, chance: Random) -> None:
    """Files without a time: the number of the row is it."""
    fleet.job["source"]["time"] = {"from": "row"}
    for part in fleet.parts:
        part.form["drop"] = ["t"]
        part.time = np.arange(len(part))


@damage(format="csv", naming="stem", clock="timestamp_ms")
def fractions_in_some_files(fleet: Fleet, chance: Random) -> None:
    """Most files have whole seconds, some have .250: one kind of time."""
    for part in fleet.parts[1:]:
        part.time = part.time // 10**9 * 10**9
        part.time = part.time[0] + np.arange(len(part)) * 10**9
        with_text(part, "t", lambda ticks: [str(_moment(int(tick))) for tick in ticks])
