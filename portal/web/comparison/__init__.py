"""Metrics of chosen jobs beside each other."""
