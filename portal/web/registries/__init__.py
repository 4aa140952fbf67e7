"""Pages of registries: those that a project is signed in to."""
