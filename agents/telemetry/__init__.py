"""Sensor readings of this node, for Prometheus and the portal."""
