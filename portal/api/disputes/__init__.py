"""REST: disputed claims to GPUs."""
