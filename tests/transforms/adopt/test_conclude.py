"""From what was seen of files to the manifest."""

import foreign
from foreign import sequence_example

from beamfeed.contract import storage
from beamfeed.transforms.adopt.conclude import conclude, fingerprint_of
from beamfeed.transforms.adopt.files import list_shards
from beamfeed.transforms.adopt.request import Request
from beamfeed.transforms.adopt.scan import scan_file
from beamfeed.transforms.tfds.read import Described


def test_a_target_and_a_feature_list_of_one_name_are_two(tmp_path):
    records = [sequence_example({"y": n % 2}, {"y": [[0.5]] * n, "n": [[n]]}) for n in (1, 2, 3)]
    path = str(foreign.write(tmp_path / "train-0", records))
    request = Request(str(tmp_path), str(tmp_path), "lake", targets=("y",), classes={"y": ()})
    candidates = list_shards(str(tmp_path))
    scans = [scan_file(storage.stat(path), request.watched)]
    manifest = conclude(request, candidates, scans, Described(), fingerprint_of(request, candidates.shards)).manifest
    told = {field.name: (field.role, field.dtype, field.in_records) for field in manifest.fields}
    assert told == {"n": ("input", "int64", "n"), "y": ("target", "int64", "y"), "y_2": ("input", "float32", "y")}
    assert manifest.splits["train"].targets["y"].counts == [1, 2]
