"""Webhooks: what happens to jobs, told to addresses that people name. See README.md."""
