"""Terminals: shells in this node's replicas, which outlive a cut of the way to their clients."""
