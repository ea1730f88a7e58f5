"""What is exported of a block of records, against plain loops."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.transforms.export import items
from beamfeed.transforms.export.array_record import to_examples
from beamfeed.transforms.export.items import cut_items, item_fields
from beamfeed.transforms.sources.record_block import Ragged, RecordBlock

FIELDS = [
    Field(name="values", dtype="float32", shape=(2,), role="input"),
    Field(name="text", dtype="bytes", shape=(2,), role="input"),
    Field(name="tokens", dtype="int64", shape=(None,), role="input"),
    Field(name="label", dtype="int64", role="target", per="window"),
    Field(name="who", dtype="bytes", role="key", per="record"),
]
ROWS = np.array([5, 4, 9])
FIRST = np.array([0, 3, 7])  # the first two share rows


def block(windows: Windows) -> RecordBlock:
    count, framed = 16, sum(len(range(0, rows - windows.length + 1, windows.stride)) for rows in ROWS)
    lengths = np.arange(count) % 4
    values = {
        "values": np.arange(count * 2, dtype=np.float32).reshape(count, 2),
        "text": pa.array([b"%d" % i for i in range(count * 2)], pa.large_binary()),
        "tokens": Ragged(np.arange(lengths.sum()), lengths),
        "label": np.arange(framed),
        "who": pa.array([b"a", b"b", b"c"], pa.large_binary()),
    }
    return RecordBlock("", FIRST, ROWS, values)


def by_loop(one: RecordBlock, windows: Windows, what: str) -> list[dict]:
    """The items, row by row."""
    length, stride = (windows.length, windows.stride) if what == "windows" else (1, 1)
    edges = np.concatenate([[0], np.cumsum(one.values["tokens"].lengths)])
    found = []
    for record, (first, rows) in enumerate(zip(one.first, one.rows, strict=True)):
        for start in range(first, first + rows - length + 1, stride):
            here = range(start, start + length)
            found.append(
                {
                    "values": [one.values["values"][row].tolist() for row in here],
                    "text": [b"%d" % (2 * row + i) for row in here for i in range(2)],
                    "tokens": [one.values["tokens"].values[edges[row] : edges[row + 1]].tolist() for row in here],
                    "who": one.values["who"][record].as_py(),
                    "label": len(found),
                }
            )
    return found


@pytest.mark.parametrize("size", [1, 200, 1 << 20])
@pytest.mark.parametrize(
    ("windows", "what"),
    [
        (Windows(length=4, stride=1), "windows"),
        (Windows(length=3, stride=2), "windows"),
        (Windows(length=3, stride=2), "rows"),
        (Windows(length=1), "windows"),
        (Windows(length=1), "rows"),
    ],
)
def test_items_are_those_of_a_loop(windows, what, size, monkeypatch):
    monkeypatch.setattr(items, "ITEMS_BYTES", size)
    one = block(windows)
    fields = item_fields(FIELDS, windows, what)
    assert ("label" in {field.field.name for field in fields}) == (what == "windows" or windows.length == 1)
    expected = by_loop(one, windows, what)
    pieces = list(cut_items(one, fields, windows, what))
    assert (len(pieces) > 1) == (size < 1 << 20)
    found = []
    length = windows.length if what == "windows" else 1
    for piece in pieces:
        tokens = piece.values["tokens"]
        edges = np.concatenate([[0], np.cumsum(tokens.lengths)])
        for i in range(piece.count):
            rows = range(i * length, (i + 1) * length)
            item = {
                "values": piece.values["values"].reshape(piece.count, length, 2)[i].tolist(),
                "text": piece.values["text"].to_pylist()[i * length * 2 : (i + 1) * length * 2],
                "tokens": [tokens.values[edges[n] : edges[n + 1]].tolist() for n in rows],
                "who": piece.values["who"][i].as_py(),
            }
            found.append(item | ({"label": int(piece.values["label"][i])} if "label" in piece.values else {}))
    names = set(found[0])
    assert found == [{key: value for key, value in item.items() if key in names} for item in expected]


def test_of_a_forecast_a_window_has_its_rows_and_those_behind_it():
    fields = [
        Field(name="values", dtype="float32", shape=(2,), role="input", part=(0, 3)),
        Field(name="later", dtype="float32", shape=(1,), role="target", part=(3, 5)),
    ]
    values = {
        "values": np.arange(32, dtype=np.float32).reshape(16, 2),
        "later": np.arange(16, dtype=np.float32)[:, None],
    }
    one, windows = RecordBlock("", np.array([0, 7]), np.array([7, 9]), values), Windows(length=5, stride=2)
    chosen = item_fields(fields, windows, "windows")
    assert [field.shape for field in chosen] == [(3, 2), (2, 1)]
    (piece,) = cut_items(one, chosen, windows, "windows")
    for i, start in enumerate((0, 2, 7, 9, 11)):
        np.testing.assert_array_equal(piece.values["values"][i], values["values"][start : start + 3])
        np.testing.assert_array_equal(piece.values["later"][i], values["later"][start + 3 : start + 5])

    manifest = SimpleNamespace(windows=windows)
    records = list(to_examples(SimpleNamespace(fields=chosen, manifest=manifest, what="windows"), piece))
    for record, start in zip(records, (0, 2, 7, 9, 11), strict=True):
        feature = tf.train.Example.FromString(record).features.feature
        assert list(feature["later"].float_list.value) == [start + 3, start + 4]
        assert list(feature["values"].float_list.value) == list(range(2 * start, 2 * start + 6))
