"""The crash drill: kills an agent at every point of a script and checks that it recovers."""
