"""TFRecords that others wrote become a dataset where they lie: they are read once, and described."""
