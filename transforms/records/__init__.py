"""From rows to verified TFRecord files; the same for every kind of source."""
