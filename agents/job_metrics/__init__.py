"""Reads the metrics that jobs report, and ships them to the portal."""
