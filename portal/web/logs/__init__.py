"""A job's log as lines, cursors and updates, for the log tab and the full-width log."""
