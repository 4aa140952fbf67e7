"""What every app asks of the database: the lock order and intervals of time in SQL."""
