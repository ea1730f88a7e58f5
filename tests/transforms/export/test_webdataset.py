"""Members of tar files, read back by Python's tarfile."""

import io
import tarfile

from beamfeed.transforms.export.webdataset import BLOCK, member


def test_names_of_any_length():
    names = ["train-00000-000000000.x.npy", f"train-00000-000000000.{'field_' * 40}.npy"]
    data = b"".join(member(name, name.encode()) for name in names) + bytes(2 * BLOCK)
    with tarfile.open(fileobj=io.BytesIO(data)) as file:
        assert file.getnames() == names
        assert [file.extractfile(name).read() for name in names] == [name.encode() for name in names]
    assert len(member(names[0], b"1")) == 2 * BLOCK
