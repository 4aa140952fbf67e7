"""The tunnel to the portal: streams to ports of replicas, over a connection that the node opens."""
