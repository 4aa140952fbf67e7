"""Recorded jobs on another cluster: under a virtual clock, driven by the production planner."""
