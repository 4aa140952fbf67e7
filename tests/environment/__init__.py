"""Real servers for the tests: installed on Debian if missing, started for the tests, and stopped.

Each module has one server and its pytest fixture. None touches a server that it did not start.
"""
