"""GPU-hours over any window: sums of allocations in unit-seconds, by user, project and device."""
