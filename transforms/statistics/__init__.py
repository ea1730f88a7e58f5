"""Statistics of the training rows, and the transform graph that they become."""
