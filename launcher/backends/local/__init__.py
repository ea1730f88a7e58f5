"""This machine: every worker is a process."""
