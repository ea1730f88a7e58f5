"""Columns of text as whole numbers and others: what is one, and which values are blamed where some are none."""

import pyarrow as pa
import pytest
from table_rows import read_rows

from beamfeed.transforms.sources.readers.dialect import Dialect
from beamfeed.transforms.sources.readers.values import BadValue, convert, convert_all

PLAIN = Dialect(("x",))


def test_whole_numbers_may_have_a_plus(tmp_path):
    (tmp_path / "a.csv").write_text("x,t\n" + "".join(f"{i},{i}\n" for i in range(20)) + "+7,+30\n")
    found, wrong = read_rows(tmp_path / "a.csv", {"x": "numeric", "t": "numeric"})
    assert (len(found), found[-1], wrong) == (21, (7, 30), {})
    assert convert(pa.array(["1", None, "+30", "-2"]), pa.int64(), PLAIN).to_pylist() == [1, None, 30, -2]


NANOSECONDS = 1_700_000_000_000_000_000


@pytest.mark.parametrize(
    "bad", ["1noon", "1.5", "9223372036854775808", "-9223372036854775809", "99999999999999999999999"]
)
def test_one_bad_value_among_whole_numbers_of_19_digits_costs_itself(bad):
    good = [NANOSECONDS, 2**63 - 1, -(2**63), 7, 0]
    text = [*map(str, good), "+1700000000000000000", "0x1F", "000000000000000000000012", None, bad]
    column, wrong = convert_all(pa.array(text), pa.int64(), PLAIN)
    assert wrong == {len(text) - 1: f"{bad!r} is not a whole number"}
    assert column.to_pylist() == [*good, NANOSECONDS, 31, 12, None, None]


SIGNS = ("", "-", "+", "--", "nan(", "(", "0x", "1-", "1e")
ENDS = (
    "",
    "1",
    "1.",
    ".5",
    "1e5",
    "1e+5",
    "nan",
    "NaN",
    "inf",
    "Infinity",
    "infinit",
    "x_y)",
    "1F",
    "1_000",
    " 1",
    "१",
    "T1:2",
)


@pytest.mark.parametrize("type_", [pa.float64(), pa.float32(), pa.int64(), pa.uint8()])
def test_what_is_blamed_is_what_arrow_does_not_cast(type_):
    texts = [text for text in {start + end for start in SIGNS for end in ENDS} if text.strip() and text != "nan"]

    def castable(text):
        try:
            pa.array([text.strip().removeprefix("+") if pa.types.is_integer(type_) else text.strip()]).cast(type_)
        except pa.ArrowInvalid:
            return False
        return True

    _, wrong = convert_all(pa.array(texts), type_, Dialect(("x",), null_words=()))
    assert set(wrong) == {row for row, text in enumerate(texts) if not castable(text)}


@pytest.mark.parametrize(
    ("type_", "good", "bad"),
    [
        (pa.uint8(), ["0", "255", "007"], ["256", "-1", "x"]),
        (pa.int16(), ["-32768", "32767"], ["32768", "-32769"]),
        (pa.uint64(), ["18446744073709551615"], ["18446744073709551616", "-5"]),
        (pa.date32(), ["2024-01-31"], ["2024-01-32", "noon"]),
        (pa.float32(), ["1e5", "+7.5", "inf"], ["1e", "seven"]),
    ],
)
def test_only_what_a_type_does_not_hold_is_blamed(type_, good, bad):
    with pytest.raises(BadValue) as error:
        convert(pa.array([*good, None, *bad, *good]), type_, PLAIN)
    first = len(good) + 1
    assert error.value.rows.tolist() == list(range(first, first + len(bad)))
