"""Jobs of the portal."""
