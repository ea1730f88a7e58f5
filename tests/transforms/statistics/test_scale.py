"""The transform graph, built by Beam, loaded, moved and asked."""

import base64
import struct
from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform.beam as tft_beam

from beamfeed.contract.config.prepare import Scale
from beamfeed.transforms.statistics.scale import Scaler, build_transform
from beamfeed.transforms.statistics.scale_file import FILE, encode_name, join_pieces, piece_of, scale_line, write_piece
from beamfeed.transforms.statistics.scaling import Scaling
from beamfeed.transforms.statistics.transform_fn import WriteTransformFn

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
FLEET = Scaling(np.array([-5, 0], "f4"), np.array([2, 0], "f4"))


def own(i: int, features: int = 2) -> Scaling:
    return Scaling(np.full(features, i, "f4"), np.arange(1, features + 1, dtype="f4") + i)


def build(folder: Path, scale: Scale, fleet: Scaling = FLEET, assets: dict[str, Scaling] | None = None) -> str:
    """The folder of the graph that is made of some scalings."""
    with tft_beam.Context(temp_dir=str(folder / "tmp")), beam.Pipeline("FnApiRunner") as pipeline:
        of_assets = pipeline | "Assets" >> beam.Create(assets.items()) if assets is not None else None
        of_fleet = pipeline | "Fleet" >> beam.Create([fleet])
        built = of_fleet | build_transform(scale, len(fleet.offset), of_assets)
        _ = built | WriteTransformFn(str(folder))
    return str(folder / "transform_fn")


@pytest.fixture(scope="module")
def names() -> dict[str, Scaling]:
    return {name: own(i) for i, name in enumerate(ODD)}


@pytest.fixture(scope="module")
def per_asset(tmp_path_factory, names) -> str:
    """The graph, in another folder than the one it was written to, which is gone."""
    folder = tmp_path_factory.mktemp("scale")
    build(folder, Scale(per="asset", min_divisor=0), assets=names)
    moved = folder.with_name("moved")
    folder.rename(moved)
    return str(moved / "transform_fn")


def test_names_may_hold_what_they_like(per_asset, names):
    scaler = Scaler(per_asset, per_asset=True)
    values = np.array([[1, 2], [np.nan, 4], [5, np.nan]], "f4")
    for name, scaling in names.items():
        offset, divisor = scaling.rows
        np.testing.assert_allclose(scaler(values, name), (values - offset) / divisor, rtol=1e-6)
    stranger = [[3, 2], [np.nan, 4], [5, np.nan]]  # the fleet's
    for name in ("no such", "tab", "-=", "\t", "\n"):
        np.testing.assert_allclose(scaler(values, name), stranger)


def test_each_row_may_have_an_asset_of_its_own(per_asset, names):
    function = tf.saved_model.load(per_asset).transform_fn
    asked = ["資産", "stranger", "", "資産", "a,b;c"]
    values = np.arange(10, dtype="f4").reshape(5, 2)
    found = function({"values": tf.constant(values), "asset": tf.constant(asked)})["values"]
    expected = [(v - (rows := names.get(name, FLEET).rows)[0]) / rows[1] for v, name in zip(values, asked, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert function({"values": tf.zeros([0, 2]), "asset": tf.constant([], tf.string)})["values"].shape == (0, 2)


def test_the_file_is_the_same_whatever_order_assets_come_in(per_asset, names, tmp_path):
    again = build(tmp_path, Scale(per="asset", min_divisor=0), assets=dict(reversed(names.items())))
    assert [path.name for path in (Path(again) / "assets").iterdir()] == [FILE]
    data = (Path(again) / "assets" / FILE).read_bytes()
    assert data == (Path(per_asset) / "assets" / FILE).read_bytes()
    lines = [line.split(b"\t") for line in data.splitlines()]
    assert lines.pop(0) == [b"-", b""]
    found = {_plain(key): struct.unpack("<4f", _plain(row)) for key, row in lines}
    assert found == {name.encode(): (i, i, i + 1, i + 2) for i, name in enumerate(ODD)}


def _plain(text: bytes) -> bytes:
    return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))


def test_no_asset_at_all(tmp_path):
    scaler = Scaler(build(tmp_path, Scale(per="asset"), assets={}), per_asset=True)
    assert scaler(np.array([[1, 2]], "f4"), "a").tolist() == [[3, 2]]


def test_the_least_divisor_is_in_the_file(tmp_path):
    fleet = Scaling(np.zeros(3, "f4"), np.array([100, 100, 0], "f4"))
    assets = {"still": Scaling(np.ones(3, "f4"), np.array([1e-5, 0, 1e-5], "f4"))}
    scaler = Scaler(build(tmp_path, Scale(per="asset", min_divisor=0.05), fleet, assets), per_asset=True)
    np.testing.assert_allclose(scaler(np.full((1, 3), 11, "f4"), "still"), [[2, 0.1, 1e6]], rtol=1e-6)


@pytest.mark.parametrize("per", ["fleet", "asset"])
def test_scaled_values_are_clipped_and_missing_ones_stay_missing(tmp_path, per):
    assets = {"a": own(1)} if per == "asset" else None
    folder = build(tmp_path, Scale(per=per, clip=2.5), own(1), assets)
    values = np.array([[1, 1], [1e9, -1e9], [np.nan, 100], [3.5, np.nan], [-3.4e38, 3.4e38]], "f4")
    found = Scaler(folder, per_asset=per == "asset")(values, "a")
    offset, divisor = own(1).rows
    scaled = (values - offset) / divisor
    np.testing.assert_allclose(found, np.clip(scaled, -2.5, 2.5), rtol=1e-6)
    assert np.isnan(found).sum() == 2
    inputs = {"values": tf.constant(values), **({"asset": tf.constant(["a"])} if per == "asset" else {})}
    np.testing.assert_allclose(tf.saved_model.load(folder).transform_fn(inputs)["unclipped"], scaled, rtol=1e-6)


@pytest.mark.parametrize(("per", "assets"), [("fleet", {}), ("asset", None)])
def test_scalings_of_assets_go_with_per_asset(per, assets):
    with pytest.raises(ValueError, match=f"per: {per}"):
        build_transform(Scale(per=per), 1, assets)


@pytest.mark.slow
def test_nothing_of_the_fleets_size_is_in_the_graph(tmp_path):
    assets, features = 20_000, 8
    with tft_beam.Context(temp_dir=str(tmp_path / "tmp")), beam.Pipeline("FnApiRunner") as pipeline:
        fleet = pipeline | "Fleet" >> beam.Create([own(0, features)])
        own_scales = pipeline | beam.Create(range(assets)) | beam.Map(lambda i: (f"asset {i}", own(i, features)))
        built = fleet | build_transform(Scale(per="asset"), features, own_scales)
        _ = built | WriteTransformFn(str(tmp_path))
    folder = tmp_path / "transform_fn"
    sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    assert sizes.pop(f"assets/{FILE}") > assets * 4 * 2 * features
    assert sum(sizes.values()) < 100_000
    scaler = Scaler(str(folder), per_asset=True)
    assert scaler(np.full((1, features), 15_000, "f4"), "asset 14990").tolist() == [
        pytest.approx([10 / (14_991 + k) for k in range(features)])
    ]


def test_pieces_written_twice_are_the_same(tmp_path, names):
    lines = [(piece_of(name), scale_line(name, scaling)) for name, scaling in names.items()]
    for _ in range(2):
        pieces = [
            write_piece(str(tmp_path), piece, (line for at, line in lines if at == piece))
            for piece in sorted(dict(lines), reverse=True)
        ]
        path = join_pieces(str(tmp_path), pieces)
        assert sorted(item.name for item in tmp_path.iterdir()) == sorted([FILE, *(Path(p).name for _, p in pieces)])
    keys = [line.split(b"\t")[0] for line in Path(path).read_bytes().splitlines()[1:]]
    assert sorted(keys) == sorted(encode_name(name) for name in names)
