"""Real servers for the tests: what a Debian machine lacks is installed, started apart, and stopped.

Each module is one server and its pytest fixture; nothing here touches a server it did not start.
"""
