"""Vertex AI: each worker is a replica of a CustomJob, which outlives the launcher."""
