"""The wire schema between portal and node agents, and the MIG geometry both sides plan with.

Pure, and the standard library alone: the portal imports this package, not the rest of `agents`.
"""
