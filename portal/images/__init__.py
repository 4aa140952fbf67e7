"""What images need of nodes, as nodes found it; the planner goes by it."""
