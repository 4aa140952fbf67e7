"""REST: the caller."""
