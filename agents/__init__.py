"""The node agent: makes a node what the portal wants it to be, and reports what it is."""
