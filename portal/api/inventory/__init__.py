"""REST: nodes, devices and partitions."""
