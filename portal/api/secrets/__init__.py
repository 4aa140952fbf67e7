"""Secrets of the caller and of projects: set and deleted, never read."""
