"""Folders of tensorflow-datasets, without the library: read, and written beside a dataset of one's own."""
