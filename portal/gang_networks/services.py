"""Give gangs their networks, and take them back."""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef

from agents.contract.gang_network import MAX_NETWORK_ID
from portal.allocations.models import Allocation
from portal.database.row_writes import rows_add
from portal.gang_networks.models import AttemptNetwork, NetworkBlock
from portal.gang_networks.subnets import FreeSubnets, subnet_blocks
from portal.inventory.models import Node
from portal.jobs.models import Attempt


@dataclass(frozen=True, slots=True)
class NetworkOrder:
    """The network that an attempt is to get."""

    attempt: Attempt
    nodes: frozenset[UUID]
    subnet: IPv4Network


def subnets_now() -> FreeSubnets:
    """What is free of the range of the settings. Two statements at least: what has ended makes room
    first."""
    gang_networks_release()
    taken = NetworkBlock.objects.values_list("block", flat=True)
    return FreeSubnets(IPv4Network(settings.PLATFORM.gang_network_range), list(taken))


def gang_networks_create(*, orders: Sequence[NetworkOrder]) -> None:
    """The networks of attempts that begin, in the transaction of their placement.

    The nodes are locked by the caller. Raises IntegrityError where another transaction took a
    number or an address meanwhile.
    """
    if not orders:
        return
    nodes = frozenset[UUID]().union(*(order.nodes for order in orders))
    overlays = dict(Node.objects.filter(pk__in=nodes).values_list("pk", "facts__overlay"))
    taken = set(AttemptNetwork.objects.values_list("number", flat=True))
    networks = []
    for order in orders:
        offers = [overlays[pk] for pk in order.nodes]
        networks.append(
            AttemptNetwork(
                attempt=order.attempt,
                number=_number(order.attempt.pk, taken),
                subnet=str(order.subnet),
                kind=offers[0]["kind"],
                mtu=min(offer["mtu"] for offer in offers),
            )
        )
    AttemptNetwork.objects.bulk_create(networks)
    rows_add(
        NetworkBlock,
        [
            NetworkBlock(block=block, network=network)
            for order, network in zip(orders, networks, strict=True)
            for block in subnet_blocks(order.subnet)
        ],
    )


def _number(attempt: int, taken: set[int]) -> int:
    """That of the attempt, as far as 24 bits hold it: a number comes again after 16 million
    attempts. The next free one if a network has it still."""
    number = attempt % MAX_NETWORK_ID + 1
    while number in taken:
        number = number % MAX_NETWORK_ID + 1
    taken.add(number)
    return number


def gang_networks_release() -> int:
    """Forget the networks of attempts that have ended and of which no node has a replica left, by
    its own report. Returns how many there were.

    One statement where there are none. A node that is away keeps its networks taken until it has
    reported, or is retired. The devices of a check have passed to the attempt after it: its network
    stays as long as they are in use.
    """
    with transaction.atomic():
        held = Allocation.objects.in_use().filter(replica__attempt=OuterRef("attempt"))
        after = Allocation.objects.in_use().filter(replica__attempt__job=OuterRef("attempt__job"))
        ended = AttemptNetwork.objects.filter(attempt__ended_at__isnull=False)
        # One order for all who release; what another one is releasing is left to it.
        rows = ended.exclude(Exists(held)).order_by("pk")
        rows = rows.exclude(Exists(after), attempt__preflight__isnull=False)
        gone = [row.pk for row in rows.select_for_update(skip_locked=True, of=("self",))]
        if gone:
            AttemptNetwork.objects.filter(pk__in=gone).delete()
    return len(gone)
