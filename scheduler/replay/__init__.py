"""Recorded workloads through the production planner, under a virtual clock."""
