"""REST: what is free now."""
