"""The check of the pairs of a gang whose nodes are slow together, or add wrongly."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from agents.launchers.nccl_tests import PAIRS
from portal.inventory.models import Node
from portal.jobs.models import Attempt, Replica
from portal.jobs.preflights import attempt_image, stored_preflight
from portal.node_pairs.expectations import RING_COMMAND, is_simulated
from portal.node_pairs.nccl_output import NcclTestOutput, read_pair_outputs
from portal.preflights.findings import NetworkFinding, finding_of
from portal.preflights.orders import NCCL_OPTIONS
from portal.preflights.pair_rounds import PairRounds, gang_rounds


def pair_check(
    attempt: Attempt, replicas: Sequence[Replica], ring: NetworkFinding
) -> dict[str, Any]:
    """What follows `attempt`, as it is stored. `ring`: what that has found."""
    rounds = _rounds(ring.nodes, replicas).argument
    command: tuple[str, ...] = (PAIRS, rounds, *NCCL_OPTIONS)
    if is_simulated(*ring.nodes):
        command = (*RING_COMMAND, "--rounds", rounds)
    return stored_preflight(
        image=attempt_image(attempt),
        command=command,
        whole_ring={"message": ring.message.as_dict(), "verdict": str(ring.verdict)},
    )


def pair_findings(
    nodes: Sequence[Node], replicas: Sequence[Replica], gpus: Mapping[object, int], text: str
) -> list[NetworkFinding]:
    """One of each pair that was to be measured, in the order of the rounds. `text`: what the check
    printed."""
    outputs = read_pair_outputs(text)
    by_key = {node.pk: node for node in nodes}
    return [
        finding_of((by_key[first], by_key[second]), gpus, outputs.get(name, NcclTestOutput()))
        for name, (first, second) in _rounds(nodes, replicas).nodes.items()
    ]


def _rounds(nodes: Sequence[Node], replicas: Sequence[Replica]) -> PairRounds:
    """`nodes`: those of the replicas, by name."""
    ranks: dict[UUID, list[int]] = defaultdict(list)
    for row in replicas:
        if row.node_id:
            ranks[row.node_id].append(row.rank)
    return gang_rounds([node.pk for node in nodes], ranks)
