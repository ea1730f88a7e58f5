"""Parquet with large groups of rows, as they are read from a bucket."""

from itertools import islice
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beamfeed.contract import storage
from beamfeed.transforms.sources.readers import Columns, TextOptions, arrow_file, iter_batches, parquet

ROWS, NAMES = 500_000, [f"x{column}" for column in range(8)]


@pytest.mark.parametrize(("most", "in_memory"), [(8 << 20, False), (256 << 20, True)])
def test_a_group_that_is_large_is_not_got_at_once(tmp_path, monkeypatch, most, in_memory):
    rng, path = np.random.default_rng(0), str(tmp_path / "a.parquet")
    table = pa.table({name: rng.random(ROWS) for name in NAMES})  # 32 MB that do not pack
    pq.write_table(table, path, row_group_size=ROWS, use_dictionary=False, compression="none")
    monkeypatch.setattr(parquet, "DECODE_BYTES", most)
    in_bucket = SimpleNamespace(is_remote=lambda _: True, open_input=storage.open_input)
    monkeypatch.setattr(parquet, "storage", in_bucket)
    pool, usual = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        columns = Columns(NAMES, dict.fromkeys(NAMES, pa.float64()), TextOptions(), frozenset())
        total = sum(batch.column("x0").to_numpy().sum() for *_, batch in iter_batches(path, columns, NAMES))
    finally:
        pa.set_memory_pool(usual)
    assert total == pytest.approx(table["x0"].to_numpy().sum())
    assert (pool.max_memory() > 24 << 20) is in_memory


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_binary(), pa.string_view(), "dictionary", "arrow", "arrow of views"]
)
def test_a_long_word_that_all_rows_have_makes_batches_short(tmp_path, monkeypatch, kind):
    """Of a dictionary: a file of some kilobytes would be gigabytes at once."""
    for reader in (arrow_file, parquet):
        monkeypatch.setattr(reader, "WORDS_BYTES", 8 << 20)
    indices = pa.array([None] + [0] * 4200, "int32")
    words = pa.DictionaryArray.from_arrays(indices, pa.array(["a" * 10_000]))
    path = str(tmp_path / ("a.arrow" if str(kind).startswith("arrow") else "a.parquet"))
    if path.endswith("arrow"):
        if kind == "arrow of views":
            words = pa.DictionaryArray.from_arrays(indices, words.dictionary.cast(pa.string_view()))
        with pa.ipc.new_file(path, pa.schema({"s": words.type})) as file:
            file.write_table(pa.table({"s": words}))
    else:
        plain = words if kind == "dictionary" else words.dictionary_decode().cast(kind)
        pq.write_table(pa.table({"s": plain}), path, compression="zstd")
    batches = [batch for *_, batch in islice(iter_batches(path, Columns(["s"], {}, TextOptions()), ["s"]), 2)]
    assert [batch.num_rows for batch in batches] == [838, 838]


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"])
def test_texts_in_other_encodings_are_read(tmp_path, encoding):
    path, texts = str(tmp_path / "a.parquet"), [f"text {row}" for row in range(9000)]
    table = pa.table({"s": texts, "word": ["a" * 3000] * 9000, "fixed": pa.array([b"abcd"] * 9000, pa.binary(4))})
    pq.write_table(table, path, use_dictionary=["word"], column_encoding={"s": encoding})
    columns = Columns(table.column_names, {}, TextOptions())
    batches = [batch for *_, batch in iter_batches(path, columns, table.column_names)]
    assert pa.Table.from_batches(batches)["s"].to_pylist() == texts
    assert len(batches) == (1 if encoding == "PLAIN" else 3)
