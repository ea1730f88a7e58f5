"""Columns of labels: which types they may be of."""

import pyarrow as pa
import pytest

from beamfeed.transforms.sources.columns.labels import LabelColumn


@pytest.mark.parametrize(
    "type_", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string_view())], ids=str
)
def test_a_class_may_be_text_of_any_type(type_):
    assert LabelColumn("y", pa.string(), ("a", "b")).fault(type_) is None
    assert LabelColumn("y", pa.float32(), None).fault(type_) is not None
