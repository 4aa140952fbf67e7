"""What of launchers, backends and devices goes together: one table that every asker reads."""
