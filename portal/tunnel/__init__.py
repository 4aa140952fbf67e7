"""Tunnels of nodes: which process holds one, and streams through it to ports of replicas."""
