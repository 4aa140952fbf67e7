"""What the agent keeps in its folder (`--var`): journal, key and node id, and a lock."""
