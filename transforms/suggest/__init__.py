"""A first job file for files that nobody has described yet: what they hold is guessed from a sample of them."""
