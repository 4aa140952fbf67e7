"""What `python -m agents` can be told: one file a command, each with `main(options) -> int`."""
