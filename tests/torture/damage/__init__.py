"""Kinds of damage, each a small function that changes a fleet. Its docstring says what must happen."""

from importlib import import_module

from .kind import DAMAGES, Damage

for group in ("values", "times", "parquet", "text", "bad_rows", "tables", "arrays", "layout", "splits", "mistakes"):
    import_module(f"{__name__}.{group}")

__all__ = ["DAMAGES", "Damage"]
