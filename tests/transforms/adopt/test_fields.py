"""From what was seen to fields: names, shapes, roles, and what is refused."""

import foreign
import pytest
from foreign import example, sequence_example

from beamfeed.contract.errors import UserError
from beamfeed.transforms.adopt.examples import Name, look_at
from beamfeed.transforms.adopt.fields import check_names, identifiers, make_fields, plain
from beamfeed.transforms.adopt.request import Request
from beamfeed.transforms.tfds.read import Hint


def fields_of(records, hints=None, **what):
    request = Request("lake", "lake", "lake", **what)
    found, notes = make_fields(look_at(records, request.watched), len(records), request, hints or {})
    return {field.name: field for field in found}, notes


def test_names_become_identifiers():
    assert plain("image/object/bbox-xmin") == "image_object_bbox_xmin"
    assert [plain(name) for name in ("3d", "ünï", "//")] == ["_3d", "ünï", "feature"]
    found = identifiers([Name("a/b"), Name("a_b"), Name("a.b"), Name("a_b", True)])
    assert found[Name("a_b")] == "a_b"
    assert len(set(found.values())) == 4


def test_shapes_roles_and_sizes():
    rows = foreign.rows(50)
    found, notes = fields_of([example(row) for row in rows], targets=("label",), classes={"label": ()})
    assert notes == [f"feature 'tags': {sum(not row['tags'] for row in rows)} records lack it: an empty list"]
    told = {name: (one.dtype, one.shape, one.role, one.stored, one.in_records) for name, one in found.items()}
    assert told == {
        "file_name": ("bytes", (), "key", "rows", "file name"),
        "label": ("int64", (), "target", "rows", "label"),
        "measure_kind": ("int64", (), "input", "rows", "measure/kind"),
        "measure_size": ("float32", (2,), "input", "rows", "measure/size"),
        "tags": ("int64", (None,), "input", "list", "tags"),
    }
    assert found["label"].classes == ["0", "1", "2"]
    assert (found["measure_kind"].sizes, found["tags"].sizes) == ([2], [9])


def test_a_list_that_some_records_lack():
    records = [example({"a": 1.0, "b": 1}), example({"b": 2})]
    found, notes = fields_of(records)
    assert (found["a"].shape, found["a"].stored, found["a"].default) == ((None,), "list", None)
    assert notes == ["feature 'a': 1 records lack it: an empty list"]
    found, notes = fields_of(records, defaults={"a": 7})
    assert (found["a"].shape, found["a"].stored, found["a"].default) == ((), "rows", 7.0)
    with pytest.raises(UserError, match="1 of 2 records have none; --default a=VALUE gives them one"):
        fields_of(records, targets=("a",))
    with pytest.raises(UserError, match="--default a=x: the records hold float32"):
        fields_of(records, defaults={"a": "x"})
    with pytest.raises(UserError, match=r"--default b=1\.5: the records hold int64"):
        fields_of(records, defaults={"b": 1.5})


def test_a_default_is_a_value_like_others():
    records = [example({"a": 1, "y": 0, "b": [1, 2]}), example({"a": 2, "y": 1, "b": 3}), example({"b": 4})]
    found, _ = fields_of(records, defaults={"a": 9, "y": 2}, targets=("y",), classes={"y": ()})
    assert (found["a"].sizes, found["y"].classes) == ([10], ["0", "1", "2"])
    assert fields_of(records, defaults={"a": -1})[0]["a"].sizes == []
    with pytest.raises(UserError, match="values are from -1 to 1, with --default y=-1; classes are counted from 0 on"):
        fields_of(records, defaults={"y": -1}, targets=("y",), classes={"y": ()})
    with pytest.raises(UserError, match="2 names are for the numbers 0 to 1; its values are from 0 to 2, with --def"):
        fields_of(records, defaults={"y": 2}, targets=("y",), classes={"y": ("no", "yes")})
    with pytest.raises(UserError, match="--default b=7: its lists hold from 1 to 2 values, and a default is for lists"):
        fields_of(records, defaults={"b": 7})


def test_whole_numbers_of_several_axes_are_no_categories():
    records = [example({"pixels": [0, 1, 2, 3]})]
    assert fields_of(records)[0]["pixels"].sizes == [4]
    assert fields_of(records, shapes={"pixels": (2, 2)})[0]["pixels"].sizes == []


def test_shapes_that_are_given():
    records = [example({"image": [float(i) for i in range(12)], "boxes": [1.0] * (4 * n)}) for n in (1, 2, 3)]
    found, _ = fields_of(records, shapes={"image": (3, 4), "boxes": (None, 4)})
    assert (found["image"].shape, found["boxes"].shape, found["boxes"].stored) == ((3, 4), (None, 4), "list")
    with pytest.raises(UserError, match="--shape image=5,2: does not fit: its lists hold 12 values"):
        fields_of(records, shapes={"image": (5, 2)})
    with pytest.raises(UserError, match="--shape boxes=any,3: does not fit: its lists hold from 4 to 12 values"):
        fields_of(records, shapes={"boxes": (None, 3)})


def test_feature_lists_are_of_any_length():
    records = [sequence_example({"n": n}, {"xy": [[1.0, 2.0]] * n, "odd": [[1], [2, 3]]}) for n in (1, 2)]
    found, notes = fields_of(records)
    assert (found["xy"].shape, found["xy"].stored) == ((None, 2), "steps")
    assert "odd" not in found
    assert notes == ["feature 'odd': its steps hold from 1 to 2 values; left out"]


def test_classes():
    records = [example({"y": value, "s": "a", "f": 1.0}) for value in (0, 2)]
    named, _ = fields_of(records, targets=("y",), classes={"y": ("a", "b", "c")})
    assert named["y"].classes == ["a", "b", "c"]
    with pytest.raises(UserError, match="2 names are for the numbers 0 to 1; its values are from 0 to 2"):
        fields_of(records, targets=("y",), classes={"y": ("a", "b")})
    with pytest.raises(UserError, match="the records hold float32; classes are whole numbers"):
        fields_of(records, targets=("f",), classes={"f": ()})
    with pytest.raises(UserError, match="--target s: holds strings; a target is a number; --classes s=auto makes"):
        fields_of(records, targets=("s",))
    with pytest.raises(UserError, match="classes are counted from 0 on"):
        fields_of([example({"y": -1})], targets=("y",), classes={"y": ()})


def test_classes_that_are_texts():
    records = [example({"y": value}) for value in ("oak", "ash", "oak")]
    found, _ = fields_of(records, targets=("y",), classes={"y": ()})
    assert (found["y"].dtype, found["y"].spelled, found["y"].classes) == ("int64", True, ["ash", "oak"])
    found, _ = fields_of(records, targets=("y",), classes={"y": ("oak", "ash", "elm")})
    assert found["y"].classes == ["oak", "ash", "elm"]
    with pytest.raises(UserError, match="--classes y: records hold 'ash', which is none of them"):
        fields_of(records, targets=("y",), classes={"y": ("oak", "elm")})
    with pytest.raises(UserError, match="its strings are not UTF-8"):
        fields_of([example({"y": b"\xff"})], targets=("y",), classes={"y": ()})


def test_a_target_is_one_number():
    with pytest.raises(UserError, match=r"--target y: has the shape \[2\]; a target is one number in each record"):
        fields_of([example({"y": [1, 2]})], targets=("y",))


def test_images_and_what_is_told_of_them():
    found, _ = fields_of([example({"image/encoded": foreign.JPEG, "a": "x"})], inputs=("a",))
    assert (found["image_encoded"].content, found["image_encoded"].role) == ("image", "input")
    assert (found["a"].content, found["a"].role) == ("", "input")
    raw, _ = fields_of([example({"pixels": bytes(range(6))})], {"pixels": Hint((2, 3), raw="uint8", role="input")})
    assert (raw["pixels"].dtype, raw["pixels"].shape, raw["pixels"].is_raw) == ("uint8", (2, 3), True)


@pytest.mark.parametrize("lists", [[[b"abcd"], []], [[b"abcd", b"efgh"]] * 2, [[b"abcd"] * 4], [[b"abc"]]])
def test_strings_that_are_not_one_array_in_each_record_stay_strings(lists):
    hints = {"pixels": Hint((2, 2), raw="uint8", role="input")}
    found, notes = fields_of([example({"pixels": one or None, "n": 1}) for one in lists], hints)
    lengths = {len(one) for one in lists}
    shape = (None,) if len(lengths) > 1 else () if lengths == {1} else (len(lists[0]),)
    assert (found["pixels"].dtype, found["pixels"].shape, found["pixels"].role) == ("bytes", shape, "key")
    assert "feature 'pixels': not each record has one string, uint8 [2,2]; they are strings" in notes
    asked, _ = fields_of([example({"pixels": one}) for one in lists if one], hints, inputs=("pixels",))
    assert asked["pixels"].role == "input"


@pytest.mark.parametrize("lists", [[[foreign.PNG], [foreign.PNG] * 2], [[foreign.JPEG] * 2], [[foreign.PNG], None]])
def test_lists_of_images_are_for_no_model(lists):
    records = [example({"n": 1.0, "album": one}) for one in lists]
    found, notes = fields_of(records)
    assert (found["album"].role, found["album"].content) == ("key", "")
    assert "feature 'album': not one image in each record, which nothing decodes; it is a key" in notes
    found, notes = fields_of(records, inputs=("album",))
    assert (found["album"].role, found["album"].content) == ("input", "")
    assert any("a model gets them as strings" in note for note in notes)


def test_hints_that_do_not_fit_the_records_do_not_count():
    found, _ = fields_of([example({"a": [1.0, 2.0]})], {"a": Hint((3,))})
    assert found["a"].shape == (2,)
    found, _ = fields_of([example({"a": [1.0, 2.0]})], {"a": Hint((2, 1))})
    assert found["a"].shape == (2, 1)


def test_names_that_there_are_not():
    request = Request("lake", "lake", "lake", targets=("lable",))
    with pytest.raises(UserError, match=r"--target lable: no record has such a feature; did you mean 'label'\?"):
        check_names(request, ["label", "a/b"])
    check_names(Request("lake", "lake", "lake", keys=("a_b", "a/b")), ["a/b"])
