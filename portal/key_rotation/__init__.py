"""Sealed secrets moved to a new secret key, so that the old one can go."""
