"""The Cluster page: a map of every GPU and its slices, filters and node details."""
