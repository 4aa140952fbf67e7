"""Devices that replicas hold: bound, released, and drained from a node."""
