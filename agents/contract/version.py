"""The version of Tessera: of its wheel, and of an agent's report."""

# `pyproject.toml` reads it here.
VERSION = "0.1.0"
