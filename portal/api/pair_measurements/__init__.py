"""REST: measurements of the network between two nodes."""
