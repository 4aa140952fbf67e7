"""Bells between processes: who rings, who listens. A bell carries a key, never data."""
