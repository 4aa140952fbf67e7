"""What-ifs: recorded jobs replayed on a changed cluster, beside the cluster as it is. Pure."""
