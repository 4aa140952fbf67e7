"""Files of jobs on a node: trees read, copied, sent and fetched."""
