"""Who the workers of a training run are, as the environment of a process says it."""
