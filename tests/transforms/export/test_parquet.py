"""How values lie in a Parquet file."""

import pyarrow as pa
import pyarrow.parquet as pq

from beamfeed.transforms.export.parquet import write_batches


def test_words_have_a_dictionary_and_numbers_none(tmp_path):
    words, numbers = pa.array(["up", "down"] * 6), pa.array([0.5, 1.5] * 6)
    table = pa.table(
        {
            "word": words,
            "words": pa.ListArray.from_arrays(pa.array(range(0, 13), pa.int32()), words),
            "number": numbers,
            "pairs": pa.FixedSizeListArray.from_arrays(pa.concat_arrays([numbers, numbers]), 2),
            "count": pa.array(range(12)),
        }
    )
    path = str(tmp_path / "file.parquet")
    write_batches(path, table.schema, table.to_batches())
    assert pq.read_table(path).equals(table)
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = [group.column(at) for at in range(group.num_columns)]
    with_dictionary = {column.path_in_schema for column in columns if "RLE_DICTIONARY" in column.encodings}
    assert with_dictionary == {"word", "words.list.element"}
