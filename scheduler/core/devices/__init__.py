"""Device options of a request, and when a GPU may change its slices and its mode."""
