"""TFRecord files of tf.train.Examples, without TensorFlow: framing, the wire format, and what a shard holds."""
