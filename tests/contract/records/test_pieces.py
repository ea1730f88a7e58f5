"""Pieces of long arrays."""

import numpy as np

from beamfeed.contract.records.pieces import ranges


def test_ranges_follow_each_other():
    sizes = np.array([2, 0, 3])
    assert ranges(np.array([5, 7, 9]), sizes).tolist() == [5, 6, 9, 10, 11]
    assert ranges(0, sizes).tolist() == [0, 1, 0, 1, 2]
    assert ranges(0, sizes[:0]).tolist() == []
