"""What readers need to know of gang networks."""

from ipaddress import IPv4Network
from typing import Any
from uuid import UUID

from django.conf import settings

from portal.allocations.selectors import allocated_replicas
from portal.gang_networks.models import AttemptNetwork, NetworkBlock
from portal.gang_networks.subnets import FreeSubnets
from portal.inventory.models import Node
from portal.jobs.models import Attempt, Replica
from portal.jobs.querysets import gang_filter
from scheduler.core.model.states import NodeStatus


def largest_gang() -> int:
    """How many replicas the largest gang over several nodes may have that would get a network now.
    One query."""
    taken = list(NetworkBlock.objects.values_list("block", flat=True))
    return FreeSubnets(IPv4Network(settings.PLATFORM.gang_network_range), taken).largest_gang()


def network_of(attempt: Attempt) -> AttemptNetwork | None:
    """No query, if the attempt was read with it."""
    network: Any = getattr(attempt, "gang_network", None)
    return network if isinstance(network, AttemptNetwork) else None


def gang_neighbours(node: UUID) -> list[UUID]:
    """The nodes that share a gang with this one, itself included: their documents depend on what it
    reports. One query."""
    gangs = allocated_replicas().filter(gang_filter("attempt__"), node=node)
    rows = Replica.objects.filter(attempt__in=gangs.values("attempt"), node__isnull=False)
    return sorted(set(rows.order_by().values_list("node_id", flat=True)))


def nodes_at_its_address(node: Node) -> list[str]:
    """Names of other nodes that report the same address. One query, if it reports any."""
    address = node.facts.get("address")
    if not address:
        return []
    others = Node.objects.exclude(pk=node.pk).exclude(status=NodeStatus.RETIRED)
    return list(others.filter(facts__address=address).values_list("name", flat=True))
