"""Idempotency keys: the same call sent twice is carried out once, and answered alike."""
