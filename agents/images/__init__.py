"""Images on this node: which bytes they are, who may run them, and which are removed."""
