"""How many GPUs and slices are available, for the cluster, by board and by node."""
