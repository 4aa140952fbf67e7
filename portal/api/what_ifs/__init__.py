"""REST: what-ifs."""
