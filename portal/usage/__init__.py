"""GPU-hours: the sum of allocations in unit-seconds, by whom and on what, over any window."""
