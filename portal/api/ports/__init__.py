"""Connections to ports of running jobs, as WebSockets beside REST."""
