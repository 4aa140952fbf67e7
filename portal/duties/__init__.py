"""Duties of the portal."""
