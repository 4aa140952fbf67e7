"""Nodes as the default CPU and memory of a request see them."""

from agents.contract.boards import known_boards
from scheduler.core.placement.host_shares import HostNode

H200 = known_boards()["H200-141GB"]
GIB = 1 << 10  # in MiB
BIG = HostNode(192_000, 2_048 * GIB, (H200,) * 8)
SMALL = HostNode(32_000, 256 * GIB, (H200,) * 4)
