"""Images: one a file, with labels from folders, patterns or lists."""
