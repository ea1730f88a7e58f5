"""Which rows can be used and where they go, against plain loops over the arrays."""

import numpy as np
import pytest

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.split import SPLITS, Split
from beamfeed.contract.errors import UserError
from beamfeed.transforms.sources.array.plan import ArrayBlock, Blocks, cut_part, gather_block
from beamfeed.transforms.sources.array.rows import NONE, iter_rows, split_places
from beamfeed.transforms.sources.array.schema import ArraySchema, resolve_schema
from beamfeed.transforms.sources.array.statistics import statistics_of
from beamfeed.transforms.splits import cut_rows


@pytest.fixture
def schema(tmp_path):
    """Makes the schema of arrays in memory, written first."""

    def made(split: str | None = None, arrays: dict[str, np.ndarray] | None = None, **source: object) -> ArraySchema:
        for name, values in (arrays or {}).items():
            np.save(tmp_path / f"{name}.npy", values)
        job = Job.model_validate({
            "name": "t", "source": {"kind": "array", "files": str(tmp_path), **source}, "output": {"path": "out"},
        })  # fmt: skip
        return resolve_schema(job.source, split, storage.match(str(tmp_path), (".npy",)))

    return made


def whole(schema: ArraySchema) -> ArrayBlock:
    """One block of all rows."""
    blocks = Blocks(0, schema.rows, schema.rows)
    pieces = [
        piece
        for column in schema.columns
        for part in column.array.parts
        for piece in cut_part(column.name, part, blocks, None)
    ]
    return gather_block(pieces[0].asset, pieces, schema, blocks, [])


def test_rows_are_set_aside_for_nan_and_for_classes_that_are_not_listed(schema):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 3)).astype("f8")
    x[rng.random((500, 3)) < 0.02] = np.nan
    x[17, 1] = np.inf
    kept = x.copy()
    y = rng.choice(["ok", "worn", "odd", ""], 500)
    z = np.where(rng.random(500) < 0.1, np.nan, rng.random(500))
    w = np.where(rng.random(500) < 0.1, np.nan, rng.random(500)).astype("f2")
    found = schema(
        arrays={"x": x, "kept": kept, "y": y, "z": z, "w": w},
        inputs={"x": "x.npy", "kept": {"files": "kept.npy", "missing": "keep"}},
        outputs={"y": {"files": "y.npy", "classes": ["ok", "worn"]}, "z": "z.npy"},
        weights={"w": "w.npy"},
    )
    split = Split(by="rows", train=0.5, eval=0.3, test=0.2)
    rows_seen = 0
    for rows in iter_rows(whole(found), found, split, 7, ["kept"]):
        rows_seen += len(rows)
        for at in range(len(rows)):
            row = rows.first + at
            bad = not np.isfinite(x[row]).all() or y[row] == "odd" or not np.isfinite(w[row])
            assert rows.bad[at] == bad == (at in rows.wrong)
            assert rows.unlabelled[at] == (y[row] == "" or np.isnan(z[row]))
            assert rows.usable[at] == (not rows.bad[at] and not rows.unlabelled[at])
            np.testing.assert_array_equal(rows.values["kept"][at], kept[row])
        assert rows.first > 17 or rows.wrong[17] == ("x", "x holds NaN or infinity")
    assert rows_seen == 500


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f8", "c16", "i8", "u8"])
def test_what_float32_cannot_hold_counts_as_infinite_in_every_role(schema, dtype):
    values = np.arange(20).astype(dtype)
    values[3] = {"f": np.finfo, "c": np.finfo, "i": np.iinfo, "u": np.iinfo}[np.dtype(dtype).kind](dtype).max
    told = {} if dtype == "c16" else {"outputs": {"y": "x.npy"}, "weights": {"w": "x.npy"}}
    scales = {"plain": "none"} if dtype == "c16" else {"plain": "none", "mean": "standard", "ends": "minmax"}
    inputs = {name: {"files": "x.npy", "scale": scale} for name, scale in scales.items()}
    beyond = dtype in ("f8", ">f8", "c16")
    for section in ({"inputs": inputs}, {"inputs": {"k": "k.npy"}, **told}):
        found = schema(arrays={"x": values, "k": np.arange(20)}, **section)
        (rows,) = iter_rows(whole(found), found, Split(by="rows", train=1.0, eval=0.0, test=0.0), 1, list(scales))
        assert rows.usable.tolist() == [row != 3 or not (beyond and section != {"inputs": {"k": "k.npy"}})
                                        for row in range(20)]  # fmt: skip
        counted = statistics_of(rows, found)
        assert all(np.isfinite([*one.low, *one.high]).all() and one.rows == one.count[0] for one in counted.moments)


def test_statistics_add_up_whatever_the_parts_are(schema):
    rng = np.random.default_rng(1)
    x, image, y = rng.normal(5, 3, (300, 4)), rng.integers(0, 255, (300, 5, 2), "u1"), rng.integers(0, 3, 300)
    found = schema(
        arrays={"x": x, "image": image, "y": y},
        inputs={"x": {"files": "x.npy", "scale": "standard"}, "image": {"files": "image.npy", "scale": "minmax"}},
        outputs={"y": {"files": "y.npy", "classes": "auto"}},
    )
    split = Split(by="row", train=0.7, eval=0.2, test=0.1)
    (rows,) = iter_rows(whole(found), found, split, 1, ["x", "image"])
    train = rows.places == 0
    counted = statistics_of(rows, found)
    of_x, of_image = counted.moments
    np.testing.assert_allclose(of_x.mean(), x[train].astype("f4").astype("f8").mean(0), rtol=1e-12)
    np.testing.assert_allclose(of_x.std(), x[train].astype("f4").astype("f8").std(0), rtol=1e-12)
    assert of_image.low == (image[train].min(),)
    assert of_image.high == (image[train].max(),)
    assert dict(counted.classes.training[0].items()) == {str(k): int((y[train] == k).sum()) for k in range(3)}
    assert dict(counted.classes.elsewhere[0].items()) == {str(k): int((y[~train] == k).sum()) for k in range(3)}
    assert counted.rows == train.sum()


def test_splits_by_hash_hang_on_the_number_of_the_row_alone(schema):
    small = schema(arrays={"x": np.zeros(4000, "u1")}, inputs={"x": "x.npy"})
    large = schema(arrays={"x": np.zeros(9000, "u1")}, inputs={"x": "x.npy"})
    split = Split(by="row", train=0.7, eval=0.2, test=0.1)
    one, other = (split_places(0, found.rows, found, split, {}) for found in (small, large))
    np.testing.assert_array_equal(one, other[:4000])
    np.testing.assert_array_equal(one[1234:1300], split_places(1234, 66, small, split, {}))
    for place, name in enumerate(SPLITS):
        assert (other == place).mean() == pytest.approx(getattr(split, name), abs=0.02)
    seeded = split_places(0, 4000, small, split.model_copy(update={"seed": 8}), {})
    assert (seeded != one).mean() > 0.3
    only = split_places(0, 4000, small, Split(by="row", train=0.5, eval=0.5, test=0.0), {})
    assert set(only.tolist()) == {0, 1}


def test_splits_by_rows_and_by_an_array(schema):
    fold = np.array([0, 1, 2, 3, 1, 0], ">i2")
    found = schema("fold", {"x": np.zeros(6), "fold": fold}, inputs={"x": "x.npy"}, keys={"fold": "fold.npy"})
    by_rows = Split(by="rows", train=3, eval=2)
    cuts = cut_rows(6, by_rows)
    assert split_places(0, 6, found, by_rows, {}).tolist() == [
        NONE if row >= cuts[2] else (row >= cuts[0]) + (row >= cuts[1]) for row in range(6)
    ]
    by_fold = Split(by="column", column="fold", train=[0, 3], test=[2])
    assert split_places(0, 6, found, by_fold, {"fold": fold}).tolist() == [0, NONE, 2, 0, NONE, 0]


@pytest.mark.parametrize(
    ("source", "split", "message"),
    [
        ({"inputs": {"x": {"files": "names.npy", "scale": "standard"}}}, None, "inputs.x.scale: the array is text []"),
        ({"inputs": {"x": {"files": "waves.npy", "scale": "minmax"}}}, None, "inputs.x.scale: the array is complex64"),
        (
            {"inputs": {"x": "x.npy"}, "outputs": {"y": {"files": "x.npy", "classes": "auto"}}},
            None,
            "source.outputs.y.classes: the array has rows of the shape [2]; a class is one value",
        ),
        (
            {"inputs": {"x": "x.npy"}, "outputs": {"y": {"files": "one.npy", "classes": "auto"}}},
            None,
            "source.outputs.y.classes: the array is float32; classes are integers, bools or texts",
        ),
        ({"inputs": {"x": "x.npy"}, "outputs": {"y": "names.npy"}}, None, "holds texts; they can be classes: auto"),
        ({"inputs": {"x": "x.npy"}, "outputs": {"y": "waves.npy"}}, None, "complex64; real numbers are needed"),
        ({"inputs": {"x": "x.npy"}, "weights": {"w": "x.npy"}}, None, "shape [2]; a weight is one number"),
        ({"inputs": {"x": "x.npy"}}, "fold", "split.column: 'fold' is none of the arrays (there are: x)"),
        ({"inputs": {"x": "x.npy"}}, "x", "split.column: 'x' is float32 [2]; one integer or text for each row"),
        ({"inputs": {"x": "nothing.npy"}}, None, "source.inputs.x: no file matches nothing.npy (suffixes: .npy .npz"),
    ],
)
def test_what_does_not_fit_the_arrays_is_one_line(schema, source, split, message):
    arrays = {
        "x": np.zeros((3, 2), "f4"), "one": np.zeros(3, "f4"), "names": np.array(["a", "b", "c"]),
        "waves": np.zeros(3, "c8"),
    }  # fmt: skip
    with pytest.raises(UserError) as caught:
        schema(split, arrays, **source)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
