"""A job's log as pages show it: addresses, lines, cursors and live updates."""
