"""Settings of programs: how each is declared, and read from the environment or from a file."""
