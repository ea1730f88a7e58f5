"""Preprocessing steps: in each file a pure kernel on Arrow or NumPy, and under it the Beam transform around it."""
