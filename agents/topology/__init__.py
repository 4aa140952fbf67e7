"""How the GPUs and network cards of a node are joined, and what that is worth. Pure but `sysfs`."""
