"""Where a replica runs: all that decides what its collective libraries are told. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from agents.contract.collectives import resolved_backend
from agents.contract.documents import CollectiveBackend, DesiredReplica, SliceKind
from agents.contract.rank_network import RankNetwork
from agents.contract.topology import NodeTopology, ReportedNic


@dataclass(frozen=True, slots=True)
class RankPlace:
    """One replica on its node."""

    network: RankNetwork
    # The RDMA devices of its own GPUs.
    rails: tuple[ReportedNic, ...]
    replicas: int
    uses_nccl: bool
    # It is a gang's, and all nodes of the gang offer RDMA.
    uses_rdma: bool
    # The folder whose files are kept.
    output: str
    # The environment of its request.
    env: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_replica(
        cls,
        replica: DesiredReplica,
        network: RankNetwork,
        topology: NodeTopology,
        gpu_indexes: Mapping[str, int],
        output: str,
    ) -> Self:
        """`gpu_indexes`: of the node's GPUs, by their UUID."""
        kinds = [device.kind for device in replica.devices]
        whole = {
            gpu_indexes[device.gpu_uuid]
            for device in replica.devices
            if device.kind is SliceKind.GPU and device.gpu_uuid in gpu_indexes
        }
        ranks = replica.world * max(replica.processes, kinds.count(SliceKind.GPU))
        backend = resolved_backend(replica.backend, kinds, ranks)
        return cls(
            network=network,
            rails=rails_of(topology, whole),
            replicas=replica.world,
            uses_nccl=bool(kinds) and ranks > 1 and backend is CollectiveBackend.NCCL,
            uses_rdma=replica.rdma,
            output=output,
            env=replica.env,
        )


def rails_of(topology: NodeTopology, gpus: set[int]) -> tuple[ReportedNic, ...]:
    """The RDMA devices that are up and the rails of these GPUs, in the order of the node."""
    return tuple(
        nic for nic in topology.nics if nic.rdma and nic.up and not gpus.isdisjoint(nic.rail_of)
    )


def common_link_layer(topology: NodeTopology) -> str:
    """Of the rails of all GPUs; empty if a GPU has no rail of RDMA, or if they differ. Ranks on
    different link layers cannot reach each other."""
    rails = rails_of(topology, set(topology.gpus))
    served = {gpu for nic in rails for gpu in nic.rail_of}
    layers = {nic.link_layer for nic in rails}
    is_complete = topology.gpus and served >= set(topology.gpus) and len(layers) == 1
    return layers.pop() if is_complete else ""
