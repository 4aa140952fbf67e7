"""What is removed after a time: logs, events and files of ended jobs; audit lines, if so set."""
