"""Accounts of the portal."""
