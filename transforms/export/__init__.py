"""A dataset on its way out: its records, and its windows or rows in formats of other programs."""
