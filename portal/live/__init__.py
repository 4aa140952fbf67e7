"""Bells between processes: one rings a key, others wait for it. A bell carries no data."""
