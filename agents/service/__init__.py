"""The agent as a service of systemd: its unit, and what installing it writes."""
