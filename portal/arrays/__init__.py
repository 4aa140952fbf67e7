"""Arrays of jobs: one request, many members."""
