"""Where to carve MIG slices, what to keep warm, and when a GPU's mode should change. Pure."""
