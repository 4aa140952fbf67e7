"""What the ranks of a replica get of this node's network: its interface and its RDMA devices."""
