"""Applies a plan to rows: placements, partitions, preemptions and reasons."""
