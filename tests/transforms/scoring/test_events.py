"""Known events: overlapping ones are one; what is wrong is named by its row."""

import numpy as np
import pyarrow as pa
import pytest

from beamfeed.contract.errors import UserError
from beamfeed.transforms.scoring.events import merged, read_events


def test_events_that_overlap_are_one():
    edges = np.array([[11.0, 20], [0, 10], [5, 8], [30, 40], [40, 41], [50, 50]])
    assert merged(edges).tolist() == [[0, 10], [11, 20], [30, 41], [50, 50]]


@pytest.mark.parametrize(
    ("text", "kind", "line"),
    [
        ("asset,begin,end\nm,1,2\nm,x,3\n", pa.float64(), "begin: must be a number, and is 'x' in row 2"),
        ("asset,begin,end\nm,1,2\nm,3,\n", pa.float64(), "end: is missing in row 2"),
        ("asset,begin,end,end\nm,1,2,2\n", pa.float64(), "has 2 columns 'end'; it must have asset, begin, end"),
        ("asset,begin,end\nm,2024-01-01,2024-01-02\nm,2024-01-03,\n", pa.timestamp("us"), "end: is missing in row 2"),
        ("asset,begin,end\nm,2024-01-01,2024-01-02\nm,then,2024-01-03\n", pa.timestamp("us"), "is 'then' in row 2"),
    ],
)
def test_what_is_wrong(tmp_path, text, kind, line):
    path = tmp_path / "events.csv"
    path.write_text(text)
    with pytest.raises(UserError, match="--events") as raised:
        read_events(str(path), kind, "--events")
    assert line in str(raised.value)


def test_each_asset_has_its_events(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("asset,begin,end\nb,5,6\na,1,2\nb,1,3\n,7,8\na,2,4\n")
    events = read_events(str(path), pa.float64(), "--events")
    assert {name: edges.tolist() for name, edges in events.items() if name} == {"a": [[1, 4]], "b": [[1, 3], [5, 6]]}
