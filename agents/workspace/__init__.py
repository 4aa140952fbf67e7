"""Where a replica works: folders of its own on the node's disk, its user, and what tells it so."""
