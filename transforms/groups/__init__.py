"""A dataset by groups: where the records of each are, a dataset of one group's records, and a model of each."""
