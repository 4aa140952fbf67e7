"""Recorded jobs on a virtual cluster, under a virtual clock, with the production planner. Pure.

`Simulation` (simulation.py) is the one event loop behind `scheduler.replay philly` and what-ifs.
"""
