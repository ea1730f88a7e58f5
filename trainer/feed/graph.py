"""The operations of `beamfeed.trainer.operations` in TensorFlow's graph."""

import tensorflow as tf

from beamfeed.trainer.operations import Operations


def search(ascending: tf.Tensor, numbers: tf.Tensor, dtype: tf.DType = tf.int32) -> tf.Tensor:
    """For each number how many of the ascending ones are no greater, `[numbers]`.

    `tf.searchsorted` puts in three times as many operations, for the shapes of more than one axis.
    """
    counts = tf.raw_ops.UpperBound(
        sorted_inputs=tf.expand_dims(ascending, 0), values=tf.expand_dims(numbers, 0), out_type=dtype
    )
    return tf.squeeze(counts, 0)


GRAPH = Operations(
    cast=tf.cast,
    constant=tf.constant,
    cumsum=tf.cumsum,
    flat=lambda values: tf.reshape(values, [-1]),
    gather=tf.gather,
    # boolean_mask takes twice as long.
    mask=lambda values, mask: tf.dynamic_partition(values, tf.cast(mask, tf.int32), 2)[1],
    minimum=tf.minimum,
    range=lambda start, stop, step: tf.range(start, stop, step, tf.int64),
    search=search,
    shift=tf.bitwise.right_shift,
    unstack=tf.unstack,
    unique=tf.unique,
)
