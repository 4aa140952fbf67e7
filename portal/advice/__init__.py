"""What a model needs for a task, and which devices of this cluster hold it."""
