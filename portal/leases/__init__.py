"""Leases on work that at most one worker may do at a time."""
