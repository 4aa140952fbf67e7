"""Ports of this node's replicas, which the portal reaches through the node's tunnel."""
