"""Arrow files whose batches say of their memory what is not so: Arrow itself would read whatever lies there."""

import numpy as np
import pyarrow as pa
import pytest

from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.numbers import plain
from beamfeed.transforms.sources.readers import Columns, TextOptions, arrow_file, iter_batches
from beamfeed.transforms.sources.readers.arrow_file import NULL_ROWS
from beamfeed.transforms.sources.table.rows import to_text

FAR = 0x7FFF0000
NO_UTF8 = pa.Array.from_buffers(
    pa.string(), 3, [None, pa.py_buffer(np.array([0, 1, 2, 3], "i4")), pa.py_buffer(b"a\xffb")]
)


def write(path, column, stream):
    batch = pa.RecordBatch.from_arrays([column], names=["x"])
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(path, batch.schema) as file:
        file.write_batch(batch)


def read(path):
    expected = Columns(["x"], {}, TextOptions())
    return pa.concat_arrays([batch.column(0) for _, _, batch in iter_batches(str(path), expected, ["x"])])


# A column, the places or lengths that are stored of it, and what stands there instead.
BROKEN = {
    "a text that ends far behind": (pa.array(["a", "bc"]), "i4", [0, 1, 3], [0, 1, FAR]),
    "a text that begins before": (pa.array(["a", "bc"]), "i4", [0, 1, 3], [0, -FAR, 3]),
    "texts that are no UTF-8, too": (NO_UTF8, "i4", [0, 1, 2, 3], [0, 1, FAR, 3]),
    "a long text": (pa.array(["a", "bc"], pa.large_string()), "i8", [0, 1, 3], [0, 1, 1 << 40]),
    "bytes": (pa.array([b"a", b"bc"]), "i4", [0, 1, 3], [0, 1, FAR]),
    "a view": (pa.array(["a text of 20 letters"], pa.string_view()), "i4", [20], [FAR]),
    "a word of a dictionary": (pa.array(list("abcd")).dictionary_encode(), "i4", [0, 1, 2, 3], [0, 1, 2, FAR]),
    "a text in a list": (pa.array([["a"], ["bc", "d"]]), "i4", [0, 1, 3, 4], [0, 1, FAR, 4]),
    "an index of a dictionary": (pa.array(list("abab")).dictionary_encode(), "i4", [0, 1, 0, 1], [0, 1, FAR, 1]),
    "a list": (pa.array([[1], [2, 3]]), "i4", [0, 1, 3], [0, 1, FAR]),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("broken", BROKEN)
def test_what_lies_outside_of_a_file_is_not_read(tmp_path, broken, stream):
    column, kind, good, bad = BROKEN[broken]
    write(tmp_path / "a.arrow", column, stream)
    stored, good = (tmp_path / "a.arrow").read_bytes(), np.array(good, kind).tobytes()
    assert good in stored
    (tmp_path / "a.arrow").write_bytes(stored.replace(good, np.array(bad, kind).tobytes()))
    with pytest.raises(BadInput, match=r"a\.arrow: (column x|file): cannot be read"):
        read(tmp_path / "a.arrow")


def test_rows_of_which_nothing_is_stored_have_a_limit(tmp_path):
    write(tmp_path / "a.arrow", pa.nulls(NULL_ROWS + 1), stream=False)
    with pytest.raises(BadInput, match="file: says that a batch has 16,777,217 rows, and has 0 bytes"):
        read(tmp_path / "a.arrow")
    write(tmp_path / "a.arrow", pa.nulls(5), stream=False)
    assert len(read(tmp_path / "a.arrow")) == 5
    batch = pa.record_batch({"y": pa.array(np.zeros(NULL_ROWS + 1, "?")), "x": pa.nulls(NULL_ROWS + 1)})
    with pa.ipc.new_file(tmp_path / "a.arrow", batch.schema) as file:
        file.write_batch(batch)
    assert len(read(tmp_path / "a.arrow")) == NULL_ROWS + 1


def test_a_dictionary_is_looked_at_once(tmp_path, monkeypatch):
    looked = []
    monkeypatch.setattr(arrow_file, "longest_word", lambda words: looked.append(words.to_pylist()) or 1)
    indices = pa.array([0, 0], "int8")
    columns = [pa.DictionaryArray.from_arrays(indices, [word]) for word in ("a", "a", "bc", "bc", "d", "a")]
    batches = [pa.record_batch({"x": column}) for column in columns]
    with pa.ipc.new_stream(tmp_path / "a.arrow", batches[0].schema) as file:
        for batch in batches:
            file.write_batch(batch)
    assert read(tmp_path / "a.arrow").to_pylist() == [word for word in ("a", "a", "bc", "bc", "d", "a") for _ in "12"]
    assert looked == [["a"], ["bc"], ["d"], ["a"]]


@pytest.mark.parametrize("stream", [False, True])
def test_words_that_are_views_are_read(tmp_path, stream):
    """As Polars writes categories."""
    for words in (["a", "bc"], [b"a", b"\xff"]):
        dictionary = pa.array(words, pa.string_view() if words[0] == "a" else pa.binary_view())
        column = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], "int8"), dictionary)
        write(tmp_path / "a.arrow", column, stream)
        assert plain(read(tmp_path / "a.arrow")).to_pylist() == [words[0], words[1], None, words[0]]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("is_dictionary", [False, True])
def test_a_text_that_is_no_utf_8_costs_its_row(tmp_path, stream, is_dictionary):
    column = NO_UTF8
    if is_dictionary:
        column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], "int8"), NO_UTF8)
    write(tmp_path / "a.arrow", column, stream)
    wrong = {}
    assert to_text(read(tmp_path / "a.arrow"), "x", wrong).to_pylist() == ["a", None, "b"]
    assert wrong == {1: "x is not UTF-8"}


@pytest.mark.parametrize("wrap", [
    lambda texts: pa.ListArray.from_arrays([0, 1, 2, 3], texts),
    lambda texts: pa.LargeListArray.from_arrays([0, 1, 2, 3], texts),
    lambda texts: pa.FixedSizeListArray.from_arrays(texts, 1),
    lambda texts: pa.StructArray.from_arrays([pa.ListArray.from_arrays([0, 1, 2, 3], texts)], ["a"]),
    lambda texts: pa.MapArray.from_arrays([0, 1, 2, 3], pa.array(["k"] * 3), texts),
])  # fmt: skip
def test_a_text_in_a_list_that_is_no_utf_8_does_not_cost_the_file(tmp_path, wrap):
    write(tmp_path / "a.arrow", wrap(NO_UTF8), stream=False)
    assert len(read(tmp_path / "a.arrow")) == 3
