"""Preprocessing steps: in each file a pure kernel on Arrow or NumPy, and under it the Beam transform around it."""

from beamfeed.contract.errors import BeamfeedError

BeamfeedError.noted = True  # an error of a worker comes to the program that waits for it as text
