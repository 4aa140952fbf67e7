"""The crash drill: an agent is killed at every point of a script, and has to find its way back."""
