"""Kubernetes: the job is the cluster's, and outlives the launcher."""
