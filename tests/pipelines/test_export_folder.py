"""The folder of an export, where writing or emptying it is cut off."""

import os
from pathlib import Path

import pytest

from beamfeed.contract import storage
from beamfeed.contract.ending import Ending
from beamfeed.contract.errors import UserError
from beamfeed.pipelines.export_folder import read_description, read_predictions, write_once
from beamfeed.transforms.export.base import complete

OLD, NEW = ({"to": "predictions", "name": "small", "of": of} for of in ("old", "new"))


@pytest.mark.parametrize("resumed", ["", "part", None])
def test_a_folder_that_is_half_emptied_is_complete_to_nobody(tmp_path, monkeypatch, resumed):
    out = tmp_path / "out"

    def write(content, *, force=False):
        def write():
            assert not Path(out, "old").exists()
            Path(out, content["of"]).touch()
            Path(out, "part").touch()
            complete(str(out), content)

        return write_once(str(out), content, write, "writing", Ending(), "parts", force=force, resumed=resumed)

    def killed(path):
        if os.path.basename(path) == "part":
            raise KeyboardInterrupt
        Path(path).unlink(missing_ok=True)

    write(OLD)
    with monkeypatch.context() as patched:
        patched.setattr(storage, "remove_tree", killed)
        with pytest.raises(KeyboardInterrupt):
            write(NEW, force=True)
    assert not (out / "_SUCCESS").exists()
    with pytest.raises(UserError, match="no complete predictions"):
        read_predictions(str(out), "out")
    if resumed == "part":  # which may be half of it
        with pytest.raises(UserError, match="--force replaces it"):
            write(OLD)
    write(OLD, force=resumed == "part")
    assert read_description(str(out)) == {**OLD, "complete": True}
    assert sorted(os.listdir(out)) == ["_SUCCESS", "_export.json", "old", "part"]
