"""From a bucket of raw asset files to a trained TensorFlow model."""
