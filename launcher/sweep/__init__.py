"""`beamfeed sweep`: a search over keys of a job, whose trials are training runs."""
