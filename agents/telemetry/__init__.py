"""What the sensors of this node say: sampled in a thread, told to Prometheus and to the portal."""
