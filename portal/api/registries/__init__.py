"""Registries that projects are signed in to: set and deleted; passwords are never read."""
