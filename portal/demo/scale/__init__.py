"""A large cluster as database rows, the same for the same seed, for measuring pages and plans.

No agents run behind its nodes. Use it for reading only: the sweep of a running worker would
soon mark every node as lost.
"""

from portal.demo.scale.seed import seed_scale
from portal.demo.scale.size import ClusterSize

__all__ = ["ClusterSize", "seed_scale"]
