"""REST v1: one file per noun. Views parse, call a service or selector, and render."""
