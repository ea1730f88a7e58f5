"""Flink, Spark and Prism: Beam's portable runners, which take a job from Beam's job server."""
