"""The control plane: reads rows into a snapshot, plans, commits, and drives nodes."""
