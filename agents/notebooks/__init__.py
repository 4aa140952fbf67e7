"""Notebooks on this node: whether anybody, or any kernel, still does something in them."""
