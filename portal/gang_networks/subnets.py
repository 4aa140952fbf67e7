"""Which subnets of a range are free: arithmetic alone.

A subnet has a power of two of addresses, begins at a multiple of its size, and is made of whole
blocks of BLOCK_ADDRESSES. Blocks have numbers that do not depend on the range, so that a range that
an admin changes never makes two subnets overlap.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network

BLOCK_ADDRESSES = 8
# The network's own address, the gateway of the replicas on every node, and the broadcast address.
RESERVED_ADDRESSES = 3
FIRST_RANK = 2


def rank_address(subnet: IPv4Network, rank: int) -> IPv4Address:
    return subnet[FIRST_RANK + rank]


def subnet_addresses(replicas: int) -> int:
    """How many addresses the subnet of a gang has."""
    return max(BLOCK_ADDRESSES, 1 << (replicas + RESERVED_ADDRESSES - 1).bit_length())


def subnet_blocks(subnet: IPv4Network) -> range:
    first = int(subnet.network_address) // BLOCK_ADDRESSES
    return range(first, first + subnet.num_addresses // BLOCK_ADDRESSES)


@dataclass(slots=True)
class FreeSubnets:
    """What is left of a range, and what is taken of it meanwhile."""

    within: IPv4Network
    blocks: Collection[int]
    """That are taken, of this range or of others."""
    _own: set[int] = field(init=False)
    """Those of this range, counted from its first one."""

    def __post_init__(self) -> None:
        every = subnet_blocks(self.within)
        self._own = {block - every.start for block in self.blocks if block in every}

    def take(self, replicas: int, *, turn: int) -> IPv4Network | None:
        """A free subnet for this many replicas, taken from now on; None if there is none.

        `turn`: where to begin to look, so that a subnet that has just become free rests a while: a
        node may still be busy with removing it."""
        addresses = subnet_addresses(replicas)
        places, used = self._places(addresses)
        tried = ((turn + offset) % places for offset in range(len(used) + 1) if places)
        place = next((place for place in tried if place not in used), None)
        if place is None:
            return None
        first = int(self.within.network_address) + place * addresses
        subnet = IPv4Network((first, 33 - addresses.bit_length()))
        start = place * addresses // BLOCK_ADDRESSES
        self._own.update(range(start, start + addresses // BLOCK_ADDRESSES))
        return subnet

    def largest_gang(self) -> int:
        """How many replicas the largest gang may have that still finds a subnet; 0 if none does."""
        addresses = self.within.num_addresses
        while addresses >= BLOCK_ADDRESSES:
            places, used = self._places(addresses)
            if len(used) < places:
                return addresses - RESERVED_ADDRESSES
            addresses //= 2
        return 0

    def _places(self, addresses: int) -> tuple[int, set[int]]:
        """How many subnets of this size there are, and which of them are not free."""
        blocks = addresses // BLOCK_ADDRESSES
        return self.within.num_addresses // addresses, {block // blocks for block in self._own}
