"""Records of others, decoded."""

import pytest
from foreign import example

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.export.decode import Decoder
from beamfeed.transforms.export.items import item_fields


def test_classes_that_records_spell_are_numbers():
    field = Field(name="tree", dtype="int64", role="target", classes=["ash", "oak"], spelled=True, default="oak")
    decoder = Decoder([field], Windows(length=1))
    block = decoder.decode([example({"tree": "oak"}), example({"tree": "ash"}), example({})])
    assert block.values["tree"].tolist() == [1, 0, 1]
    with pytest.raises(JobFailed, match="a record holds a class of 'tree' that the manifest does not have"):
        decoder.decode([example({"tree": "elm"})])
    assert not item_fields([field], Windows(length=1), "rows")[0].field.spelled
