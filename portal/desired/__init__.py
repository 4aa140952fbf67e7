"""What nodes are to be: desired documents, compiled from rows."""
