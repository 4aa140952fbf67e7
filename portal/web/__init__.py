"""Web of the portal."""
