"""The commands, one module for each group. Each calls REST and prints the result."""
