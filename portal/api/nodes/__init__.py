"""REST: nodes."""
