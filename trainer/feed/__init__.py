"""From the shards of a dataset to batches of windows."""
