"""A large cluster in rows, the same for the same seed: what pages and plans are measured on.

No agent stands behind its nodes and nothing runs: it is for reading, never for a database with a
worker, whose sweep would soon call every node lost.
"""

from portal.demo.scale.seed import seed_scale
from portal.demo.scale.size import Size

__all__ = ["Size", "seed_scale"]
