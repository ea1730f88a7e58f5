"""Kinds of asset files, one folder each."""
