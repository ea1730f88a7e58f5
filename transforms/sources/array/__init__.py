"""Arrays side by side, row by row: what a model gets and what it is to tell."""
