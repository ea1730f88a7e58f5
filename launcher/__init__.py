"""The `beamfeed` command: plans the stages of a job and runs each through a backend."""
