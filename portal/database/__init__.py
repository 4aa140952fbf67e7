"""Database tools for every app: the order of row locks, and intervals of time in SQL."""
