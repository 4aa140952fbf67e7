"""The network of an attempt, and the blocks of addresses that it claims."""

from ipaddress import IPv4Network

from django.db import models
from django.db.models import Q

from agents.contract.gang_network import MAX_NETWORK_ID
from portal.gang_networks.subnets import rank_address
from portal.jobs.models import Attempt


class AttemptNetwork(models.Model):
    """The network of one attempt of a gang over several nodes. It has a row until the attempt has
    ended and no node has anything left of it."""

    attempt = models.OneToOneField(Attempt, on_delete=models.CASCADE, related_name="gang_network")
    number = models.PositiveIntegerField(unique=True)
    """By which the nodes tell it from others: 24 bits."""
    subnet = models.CharField(max_length=18)
    kind = models.CharField(max_length=32)
    """How its packets travel, as its nodes reported when it was made."""
    mtu = models.PositiveIntegerField()
    """The smallest of its nodes' at that time."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(number__gte=1, number__lte=MAX_NETWORK_ID), name="gang_network_number"
            )
        ]

    def __str__(self) -> str:
        return f"network {self.number} ({self.subnet}) of {self.attempt}"

    @property
    def addresses(self) -> IPv4Network:
        return IPv4Network(self.subnet)

    def rank_address(self, rank: int) -> str:
        return str(rank_address(self.addresses, rank))


class NetworkBlock(models.Model):
    """Eight addresses of the subnet of a network. Each belongs to one network, so no two subnets
    overlap."""

    block = models.PositiveBigIntegerField(primary_key=True)
    """Its first address, divided by eight."""
    network = models.ForeignKey(AttemptNetwork, on_delete=models.CASCADE, related_name="blocks")

    def __str__(self) -> str:
        return f"block {self.block} of {self.network}"
