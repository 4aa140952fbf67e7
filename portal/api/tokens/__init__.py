"""REST: API tokens."""
