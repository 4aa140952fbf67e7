"""Changes of MIG slices and GPU modes ahead of demand. Proposals only; pure."""
