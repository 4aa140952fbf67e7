"""The `tessera` command: a client of REST v1 alone. It never loads Django."""
