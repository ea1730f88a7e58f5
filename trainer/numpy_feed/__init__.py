"""A dataset's batches as NumPy arrays, and as PyTorch's: the order of `beamfeed.trainer.feed`, without TensorFlow."""
