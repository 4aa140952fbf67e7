"""Inventory of the portal."""
