"""Damages of values and of times: rows that are missing, repeated, out of order or out of range."""

from random import Random

import numpy as np

from ..fleet import Fleet
from .kind import damage, some_part


@damage()
def run_of_missing_values(fleet: Fleet, chance: Random) -> None:
    """A run of missing values in one file: filled as the job says, or the windows end there."""
    part = some_part(fleet, chance, 10)
    at = chance.randrange(len(part))
    part.values[at : at + chance.randint(2, 30), chance.randrange(part.values.shape[1])] = np.nan
