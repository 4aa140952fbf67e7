"""REST: volumes."""
