"""Pairs of nodes, and how fast collectives between them are, as jobs measured it for admins."""
