"""REST: advice on models."""
