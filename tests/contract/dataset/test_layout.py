"""Names of files and folders, whatever those of groups are."""

from pathlib import PurePosixPath
from urllib.parse import unquote

from beamfeed.contract.dataset.layout import EachLayout

NAMES = ("", "a", " ", ".", "..", "...", "a/b", "a%2Fb", "%", "%25", "größe", "x" * 300, "x" * 301, "/" * 100)


def test_each_group_has_a_folder_of_its_own_below_models():
    folders = [PurePosixPath(EachLayout("out").group(name)) for name in NAMES]
    assert {folder.parent for folder in folders} == {PurePosixPath("out/models")}
    assert len(set(folders)) == len(NAMES)
    assert folders[0].name == "%"
    assert all(len(folder.name.encode()) < 255 for folder in folders)
    for name, folder in zip(NAMES, folders, strict=True):
        assert len(folder.name) > 180 or not name or unquote(folder.name) == name
