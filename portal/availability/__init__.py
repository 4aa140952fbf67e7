"""What a user may have of the cluster now, and each node with its counts."""
