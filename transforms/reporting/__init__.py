"""A report of a dataset and its model as one HTML file: a file for each section, from tables to pictures. Pure."""
