"""Secrets of users and projects, sealed; jobs name them, and only the node of a job gets values."""
