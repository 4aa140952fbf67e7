"""Secrets of jobs on their node: fetched, kept in memory, and hidden in logs."""
