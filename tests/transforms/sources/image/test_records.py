"""How many images a record holds."""

import numpy as np

from beamfeed.transforms.sources.image.records import cut_records
from beamfeed.transforms.sources.record_block import RECORD_BYTES


def test_records_hold_small_images_together_and_large_ones_alone():
    first, rows = cut_records(np.full(100, 3000), None)
    assert rows.sum() == 100
    assert set((rows * 3000 // RECORD_BYTES).tolist()) <= {0, 1}
    assert rows.min() >= 12  # but for the last one, about 22
    first, rows = cut_records(np.array([70_000] * 5), None)
    assert (first.tolist(), rows.tolist()) == ([0, 1, 2, 3, 4], [1] * 5)
    first, rows = cut_records(np.full(10, 3000), 4)
    assert (first.tolist(), rows.tolist()) == ([0, 4, 8], [4, 4, 2])
