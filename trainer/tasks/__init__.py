"""What is learned: from the fields of a batch to a loss, to metrics, and to what a model is asked when it serves."""
