"""Health of GPUs from the driver's events and counters, and what it means for replicas."""
