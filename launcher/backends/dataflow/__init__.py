"""Dataflow: the job belongs to the cloud and outlives the launcher."""
