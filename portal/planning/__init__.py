"""Between rows and the planner: the snapshot that it reads, its history, and its answers."""
