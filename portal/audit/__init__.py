"""Audit of the portal."""
