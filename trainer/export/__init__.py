"""What a training run leaves behind: models that can be served, and the report."""
