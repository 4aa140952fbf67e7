"""REST: projects, members and API tokens."""
