"""Columns of files as numbers, names, labels, times: what several kinds of source share."""
