"""The job file: one strict model for each section, and the reader that turns YAML into them."""
