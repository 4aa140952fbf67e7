"""Jobs on a cluster under a virtual clock, driven by the production planner. Pure.

`World` (world.py) is the one event loop behind `scheduler.replay philly` and what-ifs.
"""
