"""The explicit training loop: steps, optimizer, checkpoints, metrics."""
