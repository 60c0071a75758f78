"""Text as models read it: how it is prepared, split into words and checked; parses; formats of files."""
