"""The operations of `beamfeed.trainer.operations` in TensorFlow's graph."""

import tensorflow as tf

from beamfeed.trainer.operations import Operations

GRAPH = Operations(
    cast=tf.cast,
    cumsum=tf.cumsum,
    flat=lambda values: tf.reshape(values, [-1]),
    gather=tf.gather,
    # boolean_mask takes twice as long.
    mask=lambda values, mask: tf.dynamic_partition(values, tf.cast(mask, tf.int32), 2)[1],
    minimum=tf.minimum,
    range=lambda start, stop, step: tf.range(start, stop, step, tf.int64),
    search=lambda ascending, numbers: tf.searchsorted(ascending, numbers, side="right"),
    shift=tf.bitwise.right_shift,
    unique=tf.unique,
)
