"""Commands that look at a dataset."""
