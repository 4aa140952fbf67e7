"""Arrays of jobs: one, cancelled or retried as a whole."""
