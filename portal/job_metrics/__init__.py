"""Metrics that jobs report: series of steps and values, kept small."""
