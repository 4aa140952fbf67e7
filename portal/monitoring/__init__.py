"""What Prometheus reads: of each process its own work, of beat the state of the cluster."""
