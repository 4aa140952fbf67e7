"""Volumes on this node: the offered roots, their folders, and how replicas get them."""
