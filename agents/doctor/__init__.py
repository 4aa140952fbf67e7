"""Preflight checks of a node: what has to be fixed before it runs jobs safely."""
