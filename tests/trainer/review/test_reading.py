"""Where a window is from, as a review tells it."""

import pytest
import tensorflow as tf

from beamfeed.contract.dataset.fields import Field
from beamfeed.trainer.review.reading import Keys

SECOND = 10**9
TIMES = [
    Field(name=name, dtype="int64", role="key", per="record", time="instant") for name in ("first_time", "last_time")
]
ASSET = Field(name="asset", dtype="bytes", role="key", per="record")


def keys_of(written, fields):
    return Keys.of(written.manifest.model_copy(update={"fields": [*fields, written.manifest.fields[-1]]}))


def test_the_time_of_a_window_is_that_of_its_first_row(written):
    keys = keys_of(written, [ASSET, *TIMES])
    first = 1_709_294_405 * SECOND  # 2024-03-01 12:00:05
    fields = {
        "asset": tf.constant([b"pump-1", b"pump-2"]),
        "first_time": tf.constant([first, first], tf.int64),
        "last_time": tf.constant([first + 90 * SECOND, first], tf.int64),
        ".place": tf.constant([[60, 91], [0, 1]], tf.int64),
    }
    assert set(keys.names) == set(fields)
    assert keys.describe(fields, 0) == "pump-1, 2024-03-01 12:01:05"
    assert keys.describe(fields, 1) == "pump-2, 2024-03-01 12:00:05"


@pytest.mark.parametrize(("fields", "message"), [([ASSET], "pump-1"), ([], "")])
def test_what_records_do_not_say_is_left_out(written, fields, message):
    keys = keys_of(written, fields)
    assert keys.describe({"asset": tf.constant([b"pump-1"]), "values": tf.zeros([1, 8, 3])}, 0) == message
