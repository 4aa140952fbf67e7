"""Logs of replicas: stored, indexed by line and time, and read in bounded pages."""
