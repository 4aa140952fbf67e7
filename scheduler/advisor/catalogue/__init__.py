"""Models by name: shapes with the source of each."""
