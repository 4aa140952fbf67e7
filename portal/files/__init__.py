"""Files of jobs: contents by SHA-256, trees of paths, and what each project may store."""
