"""REST: request templates."""
