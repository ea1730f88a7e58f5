"""A dataset on disk: its names, its manifest, its fingerprint, and the result of a training run."""
