"""The commands of `python -m agents`: one file each, with `main(options) -> int`."""
