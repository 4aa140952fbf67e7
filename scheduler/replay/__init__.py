"""Replays of recorded workloads: `python -m scheduler.replay openb|philly|mig|snapshot`."""
