"""Arrays in files: where their values lie, told by heads alone. No NumPy: who reads the values brings it."""
