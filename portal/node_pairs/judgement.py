"""What is expected between two nodes, and what a measurement says about them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agents.contract.codec import decode
from agents.contract.errors import ContractError
from agents.contract.rank_network import RankNetwork
from agents.contract.topology import NodeTopology

# Below this part of the line rate, a part of the network is not used: with GPUDirect RDMA off, a
# pair with four cards reaches about a third.
SLOW_BELOW_PERCENT = 35


class PairVerdict(StrEnum):
    """What the last job that measured a pair found."""

    OPEN = "open"
    OK = "ok"
    SLOW = "slow"
    # Sums were wrong.
    WRONG = "wrong"
    # It was measured, but nothing is known that it could be compared with.
    UNJUDGED = "unjudged"
    # It was not measured.
    FAILED = "failed"


# Of a pair that gangs avoid.
BAD_VERDICTS = (PairVerdict.SLOW, PairVerdict.WRONG)


class ExpectationSource(StrEnum):
    """Where an expected bandwidth comes from."""

    LINE_RATE = "line_rate"
    ADMIN = "admin"
    NONE = ""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What collectives between two nodes should reach, in MB/s (10^6 bytes); 0 if unknown."""

    mb_per_second: int = 0
    source: ExpectationSource = ExpectationSource.NONE


@dataclass(frozen=True, slots=True)
class NodeLink:
    """The RDMA devices of a node that are rails of its GPUs."""

    layer: str
    """Empty if it offers no RDMA to jobs."""
    mb_per_second: int
    """Of all of them, in one direction."""


def node_link(topology: Mapping[str, Any], facts: Mapping[str, Any]) -> NodeLink:
    """From what the node reports, as it is stored."""
    try:
        nics = decode(NodeTopology, topology).nics if topology else ()
        network = decode(RankNetwork, facts.get("rank_network") or {})
    except ContractError:  # by another version
        return NodeLink("", 0)
    rails = [nic for nic in nics if nic.up and nic.rdma and nic.rail_of]
    return NodeLink(network.rdma, sum(nic.mb_per_second for nic in rails))


def expectation_of(first: NodeLink, second: NodeLink) -> Expectation:
    """The line rate of the slower node's rails, where both offer RDMA of one kind. Without RDMA,
    packets leave by a device whose rate the portal does not know."""
    rate = min(first.mb_per_second, second.mb_per_second)
    if not rate or not first.layer or first.layer != second.layer:
        return Expectation()
    return Expectation(rate, ExpectationSource.LINE_RATE)


def verdict_of(mb_per_second: int, wrong_values: int, expected_mb_per_second: int) -> PairVerdict:
    if wrong_values:
        return PairVerdict.WRONG
    if not expected_mb_per_second:
        return PairVerdict.UNJUDGED
    is_slow = mb_per_second * 100 < expected_mb_per_second * SLOW_BELOW_PERCENT
    return PairVerdict.SLOW if is_slow else PairVerdict.OK
