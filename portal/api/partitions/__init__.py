"""REST: partition previews and pins."""
