"""Batches of rows straight from files of arrays, without a dataset."""
