"""The transform graph of series: traced, filled, moved and asked; and workers' arrays beside it."""

import base64
import struct
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from beamfeed.contract.config.prepare import Scale
from beamfeed.transforms.statistics.marks import fill, mark
from beamfeed.transforms.statistics.scale import trace_scale
from beamfeed.transforms.statistics.scale_file import encode_name, join_pieces, piece_of, scale_line, write_piece
from beamfeed.transforms.statistics.scaling import FIRST_LINE, FLEET, SCALE_FILE, Scaling, scale_rows

pytestmark = pytest.mark.filterwarnings("ignore")
ODD = [
    "",
    " ",
    "tab\tname",
    "line\nname",
    "a\r\nb",
    "größe/ß",
    "資産",
    "-",
    "=",
    "a,b;c",
    "null\0byte",
    "\x7f\x80\ufffd",
]
OF_FLEET = Scaling(np.array([-5, 0], "f4"), np.array([2, 0], "f4"))


def own(i: int, features: int = 2) -> Scaling:
    return Scaling(np.full(features, i, "f4"), np.arange(1, features + 1, dtype="f4") + i)


def build(folder: Path, scale: Scale, fleet: Scaling = OF_FLEET, assets: dict[str, Scaling] | None = None) -> str:
    """The folder of the graph that is made of some scalings."""
    trace_scale(scale.per, scale.clip, len(fleet.offset), str(folder / "traced"))
    learned = {FLEET: fleet.rows}
    if assets is not None:
        learned[SCALE_FILE] = [FIRST_LINE, *(scale_line(name, scaling) for name, scaling in assets.items())]
    for _ in range(2):  # done twice, it comes to the same
        fill(str(folder / "traced"), str(folder / "filled"), learned)
    return str(folder / "filled" / "transform_fn")


def ask(graph: str, values: np.ndarray, asset: str | None = None) -> np.ndarray:
    inputs = {"values": tf.constant(values)} | ({} if asset is None else {"asset": tf.constant([asset])})
    return tf.saved_model.load(graph).transform_fn(inputs)["values"].numpy()


@pytest.fixture(scope="module")
def names() -> dict[str, Scaling]:
    return {name: own(i) for i, name in enumerate(ODD)}


@pytest.fixture(scope="module")
def per_asset(tmp_path_factory, names) -> str:
    """The graph, in another folder than the one it was written to, which is gone."""
    folder = tmp_path_factory.mktemp("scale")
    build(folder, Scale(per="asset"), assets=names)
    moved = folder.with_name("moved")
    folder.rename(moved)
    return str(moved / "filled" / "transform_fn")


def test_names_may_hold_what_they_like(per_asset, names):
    function = tf.saved_model.load(per_asset).transform_fn
    values = np.array([[1, 2], [np.nan, 4], [5, np.nan]], "f4")

    def scaled(name: str) -> np.ndarray:
        return function({"values": tf.constant(values), "asset": tf.constant([name])})["values"]

    for name, scaling in names.items():
        np.testing.assert_array_equal(scaled(name), scale_rows(values, scaling.rows))
    stranger = [[3, 2], [np.nan, 4], [5, np.nan]]  # the fleet's
    for name in ("no such", "tab", "-=", "\t", "\n"):
        np.testing.assert_allclose(scaled(name), stranger)


def test_each_row_may_have_an_asset_of_its_own(per_asset, names):
    function = tf.saved_model.load(per_asset).transform_fn
    asked = ["資産", "stranger", "", "資産", "a,b;c"]
    values = np.arange(10, dtype="f4").reshape(5, 2)
    given = function({"values": tf.constant(values), "asset": tf.constant(asked)})["values"]
    expected = [
        (v - (rows := names.get(name, OF_FLEET).rows)[0]) / rows[1] for v, name in zip(values, asked, strict=True)
    ]
    np.testing.assert_allclose(given, expected, rtol=1e-6)
    assert function({"values": tf.zeros([0, 2]), "asset": tf.constant([], tf.string)})["values"].shape == (0, 2)


def test_the_file_of_scalings_is_its_only_file(per_asset, names):
    (path,) = (Path(per_asset) / "assets").iterdir()
    assert path.name == SCALE_FILE
    lines = [line.split(b"\t") for line in path.read_bytes().splitlines()]
    assert lines.pop(0) == [b"-", b""]
    found = {_plain(key): struct.unpack("<4f", _plain(row)) for key, row in lines}
    assert found == {name.encode(): (i, i, i + 1, i + 2) for i, name in enumerate(ODD)}


def _plain(text: bytes) -> bytes:
    return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))


def test_no_asset_at_all(tmp_path):
    graph = build(tmp_path, Scale(per="asset"), assets={})
    assert ask(graph, np.array([[1, 2]], "f4"), "a").tolist() == [[3, 2]]


def test_the_least_divisor_is_in_the_scaling_of_an_asset():
    fleet = Scaling(np.zeros(3, "f4"), np.array([100, 100, 0], "f4"))
    still = Scaling(np.ones(3, "f4"), np.array([1e-5, 0, 1e-5], "f4")).at_least(fleet, 0.05)
    np.testing.assert_allclose(scale_rows(np.full((1, 3), 11, "f4"), still.rows), [[2, 0.1, 1e6]], rtol=1e-6)


def bits(values: np.ndarray) -> np.ndarray:
    """Those of float32, with one NaN like another."""
    return np.where(np.isnan(values), np.float32(np.nan), values).view("u4")


@pytest.mark.parametrize("clip", [None, 2.5])
@pytest.mark.parametrize("per", ["fleet", "asset"])
@pytest.mark.parametrize("features", [1, 3, 5000])
def test_workers_scale_to_the_bits_of_the_graph(tmp_path, features, per, clip):
    rng = np.random.default_rng(features)
    rows = np.stack([rng.normal(0, 1e3, features), 10 ** rng.uniform(-9, 9, features)]).astype("f4")
    scaling = Scaling(*rows)
    graph = build(tmp_path, Scale(per=per, clip=clip), scaling, {"a": scaling} if per == "asset" else None)
    values = rng.normal(0, 1, (4099 if features < 9 else 3, features)) * 10 ** rng.uniform(-20, 20, features)
    values = values.astype("f4")
    values.reshape(-1)[5:13] = [np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e-40, 0.0, -0.0]
    for given in (values, values[:0], values[:1]):
        expected = ask(graph, given, "a" if per == "asset" else None)
        np.testing.assert_array_equal(bits(scale_rows(given, rows, clip)), bits(expected))


def test_the_graph_gives_what_was_clipped_as_it_was(tmp_path):
    graph = build(tmp_path, Scale(clip=2.5), own(1))
    values = np.array([[1, 1], [1e9, -1e9], [np.nan, 100]], "f4")
    given = tf.saved_model.load(graph).transform_fn({"values": tf.constant(values)})["unclipped"]
    np.testing.assert_array_equal(given, scale_rows(values, own(1).rows))


def test_a_mark_that_is_not_there_is_refused(tmp_path):
    trace_scale("fleet", None, 2, str(tmp_path / "traced"))
    with pytest.raises(ValueError, match=r"no mark fleet of the shape \[2, 3\]"):
        fill(str(tmp_path / "traced"), str(tmp_path / "filled"), {FLEET: np.zeros((2, 3), "f4")})
    with pytest.raises(ValueError, match=r"traced: the graph has no stranger\.txt"):
        fill(str(tmp_path / "traced"), str(tmp_path / "filled"), {"stranger.txt": [b"x"]})
    with pytest.raises(ValueError, match=r"nothing: the graph has no /saved_model\.pb"):
        fill(str(tmp_path / "nothing"), str(tmp_path / "filled"), {})
    with pytest.raises(ValueError, match="too short"):
        mark("one", [1])


def test_pieces_written_twice_are_the_same(tmp_path, names):
    lines = [(piece_of(name), scale_line(name, scaling)) for name, scaling in names.items()]
    for _ in range(2):
        pieces = [
            write_piece(str(tmp_path), piece, (line for at, line in lines if at == piece))
            for piece in sorted(dict(lines), reverse=True)
        ]
        path = join_pieces(str(tmp_path), pieces)
        expected = sorted([SCALE_FILE, *(Path(p).name for _, p in pieces)])
        assert sorted(item.name for item in tmp_path.iterdir()) == expected
    keys = [line.split(b"\t")[0] for line in Path(path).read_bytes().splitlines()[1:]]
    assert sorted(keys) == sorted(encode_name(name) for name in names)
