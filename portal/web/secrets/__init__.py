"""Pages of secrets: the reader's own, and those of a project."""
