"""Pages of who reaches apps: what is shared with the reader, guests of an app, and tokens."""
