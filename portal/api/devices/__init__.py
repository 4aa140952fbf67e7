"""REST: GPUs and slices."""
