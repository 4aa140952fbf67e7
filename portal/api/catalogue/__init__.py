"""REST: request templates and image policies."""
