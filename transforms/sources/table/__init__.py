"""Tables: rows of columns of several types, with labels."""
