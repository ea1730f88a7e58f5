"""Batches straight from files, against the arrays in memory and plain loops over them."""

import itertools
from functools import cache
from pathlib import Path

import h5py
import numpy as np
import pytest
import tensorflow as tf
from feeds import arguments

import beamfeed
from beamfeed.contract.arrays.npy import DTYPES
from beamfeed.trainer.arrays import load, values
from beamfeed.trainer.arrays.load import load_arrays
from beamfeed.trainer.feed import batching
from beamfeed.trainer.feed.options import Tuning

ROWS = 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arrays")
    np.save(folder / "x.npy", wide())
    np.save(folder / "y.npy", np.arange(ROWS))
    for number, part in enumerate(np.split(wide(), (300, 301, 900))):
        np.save(folder / f"part-{number}.npy", part)
    np.savez(folder / "both.npz", x=wide(), y=np.arange(ROWS))
    with h5py.File(folder / "both.h5", "w") as file:
        file["x"] = wide()
    return folder


def wide() -> np.ndarray:
    """Each row tells its number."""
    return np.arange(ROWS, dtype="f4")[:, None, None] + np.array([[0, 0.25], [0.5, 0.75]], "f4")


@pytest.fixture(autouse=True)
def small_rounds(monkeypatch):
    """Blocks of 20 rows and rounds of a few batches, as large arrays have them."""
    monkeypatch.setattr(load, "BLOCK_BYTES", 20 * 24)
    monkeypatch.setattr(batching, "LEAST_BYTES", 100 * 24)
    monkeypatch.setattr(batching, "MOST_BYTES", 200 * 24)
    monkeypatch.setattr(load, "CHUNK_BYTES", 40 * 24)


def numbers(batches) -> list[list[int]]:
    """The rows of each batch; what is beside each other must be of one row."""
    found = []
    for x, y in batches:
        rows = y["y"].numpy()
        np.testing.assert_array_equal(x["x"].numpy(), wide()[rows])
        found.append(rows.tolist())
    return found


def joined(batches: list[list[int]]) -> list[int]:
    return list(itertools.chain.from_iterable(batches))


def read(folder, x: object = "x.npy", **options):
    x = {**x, "files": str(folder / x["files"])} if isinstance(x, dict) else str(folder / x)
    return load_arrays({"x": x}, {"y": str(folder / "y.npy")}, **arguments(**options))


SHAPES = {
    "one file": "x.npy",
    "several files": "part-*.npy",
    "npz": {"files": "both.npz", "array": "x"},
    "hdf5": "both.h5",
}


@pytest.mark.parametrize("x", SHAPES.values(), ids=list(SHAPES))
def test_rows_come_in_the_order_of_the_files(folder, x):
    batches = read(folder, x, batch_size=32)
    assert batches.cardinality() == len(list(batches)) == ROWS // 32
    assert joined(numbers(batches)) == list(range(ROWS // 32 * 32))


@pytest.mark.parametrize(("x", "copied"), [*((x, False) for x in SHAPES.values()), ("part-*.npy", True)])
def test_the_order_hangs_on_the_seed_alone_and_not_on_the_files(folder, x, copied, monkeypatch):
    wanted = order_of_one_file(folder)
    if copied:
        monkeypatch.setattr(values, "lies_in_place", lambda array: False)
    # Blocks end where files do, so that the order of several files is another one; it has its own seed to go by.
    found = numbers(read(folder, x, batch_size=32, shuffle=100, epochs=2))
    if x == "part-*.npy":
        assert found == numbers(read(folder, x, batch_size=32, shuffle=100, epochs=2, tuning=Tuning(parallel=False)))
    else:
        assert found == wanted
    for epoch in (found[: ROWS // 32], found[ROWS // 32 :]):
        rows = joined(epoch)
        assert len(set(rows)) == len(rows) == ROWS // 32 * 32
        assert rows != sorted(rows)
    assert found[0] != found[ROWS // 32]
    assert numbers(read(folder, x, batch_size=32, shuffle=100, seed=8).take(1))[0] != found[0]


@cache
def order_of_one_file(folder) -> list[list[int]]:
    """The batches of two epochs; asked for by tests that all read in rounds and blocks of the same sizes."""
    return numbers(read(folder, batch_size=32, shuffle=100, epochs=2))


@pytest.mark.parametrize("start", [(0, 17), (0, 31), (1, 3)])
def test_reading_goes_on_at_any_batch(folder, start):
    epoch, step = start
    rest = numbers(read(folder, batch_size=32, shuffle=100, epochs=2 - epoch, start=start))
    assert rest == order_of_one_file(folder)[epoch * 31 + step :]


@pytest.mark.parametrize(("workers", "replicas"), [(1, 2), (3, 1), (2, 2)])
def test_workers_share_each_global_batch(folder, workers, replicas):
    options = {"batch_size": 36, "shuffle": 100}
    whole = numbers(read(folder, **options))
    shares = [
        numbers(read(folder, distribution=beamfeed.Distribution(worker, workers, replicas), **options))
        for worker in range(workers)
    ]
    for step, batch in enumerate(whole):
        parts = [share[step * replicas + replica] for share in shares for replica in range(replicas)]
        assert joined(parts) == batch
        assert {len(part) for part in parts} == {36 // workers // replicas}


@pytest.mark.parametrize(("workers", "x"), [(1, "both.h5"), (2, "x.npy")])
def test_what_is_padded_is_zero_and_has_no_weight(folder, workers, x):
    seen = []
    for worker in range(workers):
        batches = read(folder, x, batch_size=64, remainder="pad", distribution=beamfeed.Distribution(worker, workers))
        assert batches.cardinality() == -(-ROWS // 64)
        for inputs, outputs, weights in batches:
            assert len(weights) == 64 // workers
            rows = outputs["y"].numpy()[weights.numpy() == 1]
            np.testing.assert_array_equal(inputs["x"].numpy()[weights.numpy() == 1], wide()[rows])
            assert not inputs["x"].numpy()[weights.numpy() == 0].any()
            seen += rows.tolist()
    assert sorted(seen) == list(range(ROWS))


def test_some_rows_make_a_split(folder):
    train = numbers(read(folder, batch_size=10, rows=(0, 700), shuffle=50))
    evaluation = numbers(read(folder, "part-*.npy", batch_size=10, rows=(700, 1000)))
    assert set(joined(train)) == set(range(700))
    assert joined(evaluation) == list(range(700, 1000))


@pytest.mark.parametrize("way", ["<", ">", "unaligned"])
def test_every_dtype(tmp_path, way):
    """All of them in one go, as arrays of their own."""
    rng, written, files = np.random.default_rng(0), {}, {}
    for dtype in DTYPES.values():
        numbers = rng.integers(0, 200, (50, 3))
        written[dtype] = numbers % 2 == 0 if dtype == "bool" else numbers.astype(dtype)
        files[dtype] = tmp_path / (f"{dtype}.npz" if way == "unaligned" else f"{dtype}.npy")
        if way == "unaligned":
            np.savez(files[dtype], x=written[dtype])
        else:
            np.save(files[dtype], written[dtype].astype(np.dtype(dtype).newbyteorder(way)))
    for batch in load_arrays(files, batch_size=50).take(1):
        for dtype, values_ in written.items():
            assert batch[dtype].dtype == tf.as_dtype(dtype)
            np.testing.assert_array_equal(batch[dtype].numpy(), values_)


def test_a_file_on_a_disk_lies_in_place(folder):
    (array,) = load._find({"x": str(folder / "x.npy")}, {})
    assert values.lies_in_place(array)
    (other,) = load._find({"x": {"files": str(folder / "both.npz"), "array": "x"}}, {})
    offset = other.parts[0].stored.offset
    assert values.lies_in_place(other) == (offset % values.ALIGNED == 0)


def test_keras_takes_what_it_gives(folder):
    import keras

    inputs = keras.Input((2, 2), name="x")
    model = keras.Model({"x": inputs}, {"y": keras.layers.Dense(1)(keras.layers.Flatten()(inputs))})
    model.compile("sgd", loss={"y": "mse"})
    model.fit(read(folder, batch_size=100, shuffle=10, epochs=None), steps_per_epoch=2, verbose=0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rows": (5, 5)}, r"rows: \(5, 5\) is no range of the 1,000 rows"),
        ({"rows": (0, 1001)}, "is no range of the 1,000 rows"),
        ({"batch_size": 1001}, "batch_size: 1001 is more than the 1,000 rows"),
        ({"x": "nothing.npy"}, r"inputs.x: no file matches .*nothing.npy \(suffixes: .npy .npz .h5 .hdf5 .zarr\)"),
        ({"x": {"files": "x.npy", "aray": "x"}}, "load_arrays: inputs.x.aray: Extra inputs"),
        ({"x": "fortran.npy"}, "fortran.npy has its values in Fortran's order, so rows are not byte ranges"),
        ({"x": "packed.npz"}, "packed.npz has its values packed or in chunks"),
        ({"x": "texts.npy"}, "texts.npy holds texts; preprocess it"),
        ({"x": "short.npy"}, "the arrays have not the same number of rows: inputs.x has 5, outputs.y has 1,000"),
    ],
)
def test_what_cannot_be_read_is_one_line(folder, given, message):
    np.save(folder / "fortran.npy", np.asfortranarray(np.zeros((ROWS, 2))))
    np.savez_compressed(folder / "packed.npz", x=np.zeros(ROWS))
    np.save(folder / "texts.npy", np.array(["a"] * ROWS))
    np.save(folder / "short.npy", np.zeros(5))
    with pytest.raises(beamfeed.UserError, match=message) as caught:
        read(folder, **{"batch_size": 2, **given})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"remainder": "keep"}, "remainder is 'keep', it must be one of drop, pad"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"where": {}}, "load_arrays has no option where; it has start, lanes, tuning"),
        ({"start": (0, 99)}, r"start is \(0, 99\), there are 31 batches in each of 1 epochs"),
    ],
)
def test_wrong_arguments_are_told(folder, given, message):
    with pytest.raises(ValueError, match=message):
        read(folder, **{"batch_size": 32, **given})


@pytest.mark.parametrize("way", [Path, lambda x: [x], lambda x: (Path(x),), lambda x: {"files": Path(x)}])
def test_files_are_paths_in_any_form(folder, way):
    batches = load_arrays({"x": way(str(folder / "x.npy"))}, {"y": folder / "y.npy"}, batch_size=500)
    assert joined(numbers(batches)) == list(range(ROWS))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["x.npy"], "inputs is a list, it must be a mapping of names to files, such as {'x': 'x.npy'}"),
        ({"x": np.zeros((2, 2))}, "inputs.x is an array; give files; numpy.save writes one"),
        ({"x": [np.zeros((2, 2))]}, "inputs.x is an array; give files; numpy.save writes one"),
    ],
)
def test_what_are_no_files_is_told(inputs, message):
    with pytest.raises(TypeError) as caught:
        load_arrays(inputs, batch_size=2)
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["batch_size", "shuffle", "seed", "epochs"])
def test_a_number_that_is_not_whole_is_told(folder, name):
    with pytest.raises(TypeError, match=rf"^{name} is 3\.0, it must be a whole number$"):
        read(folder, **{"batch_size": 32, name: 3.0})
