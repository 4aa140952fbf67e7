"""Terminals in running jobs, as WebSockets beside REST: for the command line and the page."""
