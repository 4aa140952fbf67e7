"""REST: projects and their members."""
