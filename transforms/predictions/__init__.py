"""What an exported model says of windows and rows: the model in a worker, its answers as columns, and their files."""
