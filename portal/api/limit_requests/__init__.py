"""Requests that an admin raise a limit."""
