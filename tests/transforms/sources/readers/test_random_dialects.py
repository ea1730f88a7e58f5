"""Tables that Python's csv module writes in random dialects read back equal, the dialect given or guessed."""

import csv
import io
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from series import read_file

from beamfeed.contract.errors import UserError
from beamfeed.transforms.rejects import BadInput

TIMES = {
    "int": None,
    "iso": "%Y-%m-%d %H:%M:%S",
    "german": "%d.%m.%Y %H:%M:%S",
    "british": "%d/%m/%Y %H:%M:%S",
    "american": "%m/%d/%Y %I:%M:%S %p",
}


def grouped(digits: str, mark: str | None) -> str:
    return f"{int(digits):,}".replace(",", mark) if mark and len(digits) > 3 else digits


def number(value: float, digits: int, decimal: str, thousands: str | None) -> str:
    text = f"{abs(value):.{digits}f}"
    whole, _, rest = text.partition(".")
    return ("-" if value < 0 else "") + grouped(whole, thousands) + (decimal + rest if rest else "")


def write(rng: np.random.Generator) -> tuple[bytes, dict, np.ndarray, np.ndarray]:
    """The bytes of a random file, all that is to know of it (`source`), and its ticks and values."""
    rows, columns = int(rng.integers(1, 60)), int(rng.integers(1, 5))
    delimiter = str(rng.choice([",", ";", "\t", "|"]))
    decimal = str(rng.choice([".", ","]))
    thousands = rng.choice([None, None, ",", ".", " ", "'"])
    thousands = None if thousands == decimal else thousands
    encoding = str(rng.choice(["utf-8", "utf-8-sig", "utf-16", "cp1252"]))
    style = str(rng.choice(list(TIMES)))
    digits = int(rng.integers(0, 5))
    nulls = str(rng.choice(["", "NA", "-", "#WERT!", "none"]))
    values = np.round(rng.normal(size=(rows, columns)) * 10.0 ** rng.integers(0, 6, columns), digits)
    missing = rng.random(values.shape) < 0.1
    start = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=int(rng.integers(0, 10**7)))
    whens = [start + timedelta(seconds=int(s)) for s in np.cumsum(rng.integers(1, 200_000, rows))]
    times = [str(i) for i in range(rows)] if style == "int" else [when.strftime(TIMES[style]) for when in whens]
    ticks = list(range(rows)) if style == "int" else [int(when.timestamp()) * 10**9 for when in whens]

    names = ["Zeit", *(f"x{i}" for i in range(columns)), "Größe µ"]
    preamble, units, header = int(rng.integers(0, 4)), bool(rng.random() < 0.3), bool(rng.random() < 0.8)
    comments = bool(rng.random() < 0.2)
    out = io.StringIO(newline="")
    writer = csv.writer(
        out,
        delimiter=delimiter,
        quoting=int(rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])),
        lineterminator=str(rng.choice(["\n", "\r\n"])),
    )
    out.write("# of a random file\n" * comments)
    for line in range(preamble):
        out.write(f"Made by a test, line {line + 1}\n")
    if header:
        writer.writerow(names)
        if units:
            writer.writerow(["s", *["°C"] * columns, ""])
    texts = ["warm", "", 'a "b"', f"c{delimiter}d", "e\nf", "ü"]
    for row in range(rows):
        own = [number(value, digits, decimal, thousands) for value in values[row]]
        cells = [nulls if lost else cell for lost, cell in zip(missing[row], own, strict=True)]
        writer.writerow([times[row], *cells, str(rng.choice(texts))])
    keys = {
        "delimiter": delimiter,
        "decimal": decimal,
        "thousands": thousands,
        "encoding": encoding,
        "skip_lines": preamble + comments,
        "header": header,
        "names": [] if header else names,
        "skip_after_header": int(units and header),
        "comment": None,
    }
    time = {"column": "Zeit", "format": TIMES[style]}
    expected = np.where(missing, np.nan, values).astype("f4")
    return out.getvalue().encode(encoding), {"time": time, "csv": keys}, np.array(ticks), expected


@pytest.mark.parametrize("seed", range(4))
def test_a_table_reads_back_equal(tmp_path, seed):
    rng = np.random.default_rng(seed)
    guessed = refused = 0
    for number_ in range(30):
        content, known, ticks, values = write(rng)
        path = tmp_path / f"{number_}.csv"
        path.write_bytes(content)
        found = read_file(path, known["time"], csv=known["csv"])
        np.testing.assert_array_equal(found.ticks, ticks, err_msg=str(known))
        np.testing.assert_array_equal(found.values, values, err_msg=str(known))
        names = {"names": known["csv"]["names"]}
        try:
            found = read_file(path, {"column": "Zeit"}, csv=names)
        except (UserError, BadInput):
            refused += 1  # nothing to go by, such as dates before the 13th alone
            continue
        guessed += 1
        np.testing.assert_array_equal(found.ticks, ticks, err_msg=f"{known}\n{content[:300]!r}")
        np.testing.assert_array_equal(found.values, values, err_msg=f"{known}\n{content[:300]!r}")
    assert guessed > 3 * refused
