"""What a planner keeps from one pass to the next to be faster. It holds no decision: plans are the
same without it.
"""

from scheduler.core.model.snapshot import ClusterSnapshot, NodeView
from scheduler.core.placement.ledger import Ledger
from scheduler.core.queue.requirements import RequirementsTable


class PassCache:
    """The ledger and the requirements of the last pass. For one planner and one cluster; not for
    passes that run at the same time."""

    def __init__(self) -> None:
        self._last: tuple[Ledger, RequirementsTable] | None = None

    def prepare(self, snapshot: ClusterSnapshot) -> tuple[Ledger, RequirementsTable]:
        """The ledger and requirements of this snapshot. Changes made by earlier passes are gone."""
        if self._last is None or not has_same_hardware(self._last[0].snapshot, snapshot):
            self._last = Ledger(snapshot), RequirementsTable(snapshot)
        else:
            for each in self._last:
                each.follow(snapshot)
        return self._last


def has_same_hardware(before: ClusterSnapshot, now: ClusterSnapshot) -> bool:
    """Whether only allocations may have changed: same nodes, GPUs, labels and links."""
    if len(before.nodes) != len(now.nodes):
        return False
    pairs = zip(before.nodes, now.nodes, strict=True)
    return all(old is new or _hardware(old) == _hardware(new) for old, new in pairs)


def _hardware(node: NodeView) -> object:
    gpus = [(g.id, g.index, g.board, g.product_name, g.memory_mib, g.profiles) for g in node.gpus]
    host = (node.cpu_total_milli, node.memory_total_mib, node.disk_total_mib, node.share_clients)
    facts = (node.id, node.name, node.available, node.fabric, node.labels, node.taints, node.links)
    network = (node.overlay, node.rdma, node.git_hosts, node.limits_egress)
    agent = (node.launchers, node.agent_version, node.volume_access, node.fit, network)
    return (facts, host, agent, gpus)
