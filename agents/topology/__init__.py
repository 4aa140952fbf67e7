"""How the GPUs and network cards of a node are connected."""
