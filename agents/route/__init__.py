"""The way from a node to its portal: addresses, trusted authorities, a proxy."""
