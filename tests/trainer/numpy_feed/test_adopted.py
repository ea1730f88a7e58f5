"""PyTorch's door to TFRecords that others wrote, against `load_dataset`."""

import itertools

import foreign
import pytest
import tensorflow as tf
from feeds import batch_reader
from foreign import example, sequence_example

from beamfeed.contract.errors import UserError
from beamfeed.pipelines import adopt
from beamfeed.trainer.feed.dataset import load_dataset
from beamfeed.trainer.numpy_feed.windows import Ragged


def adopted(folder, *options):
    assert adopt.main([str(folder), *options, "--direct_num_workers=1", "--quiet"]) == 0
    return str(folder)


def read(folder, names, batch_size=5, **options):
    """The rows that the door gives, as lists."""
    reader = batch_reader(folder, batch_size=batch_size, fields=names, **options)
    return [row for batch in reader.read() for row in zip(*(lists(batch.fields[name]) for name in names), strict=True)]


def lists(values):
    if isinstance(values, Ragged):
        edges = [0, *values.lengths.cumsum().tolist()]
        entries = values.values if isinstance(values.values, list) else values.values.tolist()
        return [entries[first:end] for first, end in itertools.pairwise(edges)]
    return values if isinstance(values, list) else values.tolist()


def expected(folder, names, batch_size=5, remainder="drop", **options):
    """The same from `load_dataset`."""
    found = []
    for batch in load_dataset(
        folder, "train", batch_size=batch_size, fields=names, remainder=remainder, **{"shuffle": 0, **options}
    ):
        fields = batch[0] if remainder == "pad" else batch
        columns = [
            one.to_list() if isinstance(one, tf.RaggedTensor) else one.numpy().tolist()
            for one in (fields[name] for name in names)
        ]
        found += list(zip(*columns, strict=True))
    return found


@pytest.mark.parametrize("compression", ["", "GZIP"])
@pytest.mark.parametrize("options", [{}, {"shuffle": 20}, {"remainder": "pad", "batch_size": 7}])
def test_names_lists_and_records_of_no_byte(tmp_path, compression, options):
    records = [example(row) for row in foreign.rows(20)]
    foreign.write(tmp_path / "x-train", [*records[:9], b"", *records[9:]], compression)
    folder = adopted(tmp_path, "--target", "label")
    names = ["measure_size", "measure_kind", "tags", "label", "file_name"]
    found = read(folder, names, **options)
    assert found == expected(folder, names, **options)
    assert len(found) >= 20
    assert read(folder, ["tags"], **options) == expected(folder, ["tags"], **options)


def test_defaults(tmp_path):
    rows = [{"a": 1.0, "n": -3, "s": ["x", "y"], "c": 1}, {"c": 2}, {"a": 2.0, "c": 3}, {"n": 5, "c": 4}]
    foreign.write(tmp_path / "x-train", [example(row) for row in rows] * 5)
    folder = adopted(tmp_path, "--default", "a=-1.5", "--default", "n=-7", "--default", "s=none")
    found = read(folder, ["a", "n", "s", "c"])
    assert found == expected(folder, ["a", "n", "s", "c"])
    assert found[1] == (-1.5, -7, [b"none", b"none"], 2)


def test_classes_by_their_names(tmp_path):
    foreign.write(tmp_path / "x-train", [example({"a": float(n), "y": ["oak", "ash", "elm"][n % 3]}) for n in range(9)])
    folder = adopted(tmp_path, "--target", "y", "--classes", "y=auto")
    found = read(folder, ["a", "y"])
    assert found == expected(folder, ["a", "y"])
    assert found[0] == (0.0, 2)


def test_feature_lists(tmp_path):
    records = [
        sequence_example({"n": n}, {"n": [[n, 300]] * (n % 3), "xy": [[0.5 * n, 1.0]] * (n % 4), "w": ["a"] * (n % 2)})
        for n in range(1, 21)
    ]
    foreign.write(tmp_path / "x-train", records)
    folder = adopted(tmp_path)
    names = ["n", "n_2", "xy", "w"]
    found = read(folder, names, shuffle=9)
    assert found == expected(folder, names, shuffle=9)
    assert sorted(found)[2] == (3, [], [[1.5, 1.0]] * 3, [b"a"])


def test_a_shard_that_changed_is_told_at_once(tmp_path):
    path = foreign.write(tmp_path / "x-train", [example({"a": n}) for n in range(9)])
    folder = adopted(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"x")
    with pytest.raises(UserError, match=f"{path}: damaged: .* at byte .*; adopt the folder again"):
        read(folder, ["a"])
    path.write_bytes(whole + b"more")
    with pytest.raises(UserError, match=f"{path}: changed since it was adopted: .*; adopt the folder again"):
        read(folder, ["a"])
    path.unlink()
    with pytest.raises(UserError, match=f"{path}: the manifest lists this shard, but it is missing; adopt"):
        read(folder, ["a"])
