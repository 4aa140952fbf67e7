"""What a node's network offers the ranks of a gang, and what a request wants of it."""

from dataclasses import dataclass, field
from enum import StrEnum

from agents.contract.codec import omitted_by_default


class RdmaUse(StrEnum):
    """Whether ranks of a job use RDMA between nodes. `auto`: where all of its nodes offer it."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class MnnvlUse(StrEnum):
    """NVLinks between nodes: as NCCL finds them, required, or not used."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class NoRdma(StrEnum):
    """Why ranks do not use RDMA."""

    POLICY = "policy"
    NO_RAIL = "no_rail"
    CONTAINER_NETWORK = "container_network"
    # Of one job, not of the node.
    REQUEST = "request"
    OTHER_NODE = "other_node"


@dataclass(frozen=True, slots=True)
class RankNetwork:
    """The network of the ranks on one node, as its agent found it and its owner's policy allows."""

    # By which ranks reach each other, as they see it; empty if none is known.
    interface: str = field(default="", metadata=omitted_by_default(max_length=64))
    # The link layer of the RDMA devices that jobs may use (InfiniBand, Ethernet); empty if none.
    rdma: str = field(default="", metadata=omitted_by_default(max_length=32))
    # A `NoRdma`, or the word of a newer agent; empty where `rdma` is set.
    no_rdma: str = field(default="", metadata=omitted_by_default(max_length=32))
    # RDMA devices can reach the memory of GPUs by nvidia-peermem.
    peermem: bool = field(default=False, metadata=omitted_by_default())
    # How far a GPU may be from a card that reaches its memory; empty: NCCL decides.
    gdr_level: str = field(default="", metadata=omitted_by_default(max_length=8))
    # The switches reduce (SHARP).
    sharp: bool = field(default=False, metadata=omitted_by_default())
    # A `MnnvlUse`.
    mnnvl: str = field(default=str(MnnvlUse.AUTO), metadata=omitted_by_default(max_length=8))
