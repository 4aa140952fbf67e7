"""What is known of this node when its replicas are prepared."""

from collections.abc import Mapping
from dataclasses import dataclass

from agents.contract.rank_network import RankNetwork
from agents.contract.topology import NodeTopology


@dataclass(frozen=True, slots=True)
class NodeNetworkFacts:
    """The node as its agent last read it."""

    network: RankNetwork
    topology: NodeTopology
    # By the UUID of each GPU.
    gpu_indexes: Mapping[str, int]
