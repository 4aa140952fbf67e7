"""Nodes, GPUs and slices: what the cluster has, and what admins set on it."""
