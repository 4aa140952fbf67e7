"""Quotas of the portal."""
