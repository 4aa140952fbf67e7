"""Registries that projects are signed in to: sealed passwords, for pulls of their images alone."""
