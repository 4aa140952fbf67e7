"""Volumes: folders that outlive jobs, and which projects may use them."""
