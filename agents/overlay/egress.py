"""What jobs reach beyond their bridge, as one nftables table that never changes: the name of a
bridge's device begins with the policy of its jobs.

So there is nothing to add when a job starts and nothing to remove when it ends, and an agent that
is killed opens nothing. Pure, but for `EgressTable`.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from ipaddress import ip_address

from agents.contract.egress import METADATA_ADDRESSES, EgressPolicy
from agents.overlay.commands import NFT, NetworkRefused, network_command, try_network_command
from agents.overlay.resolvers import read_resolvers

TABLE = "tessera_egress"
# Before Docker's chains, which have 0.
PRIORITY = -11
PREFIXES = {
    EgressPolicy.ALL: "tse-",
    EgressPolicy.INTERNET: "tsi-",
    EgressPolicy.NONE: "tsn-",
}
PRIVATE = (
    "ip daddr { 0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, "
    "198.18.0.0/15, 224.0.0.0/3 }",
    "ip6 daddr { fc00::/7, fe80::/10, ff00::/8 }",
)
# Somebody else's `nft flush ruleset` opens jobs for so long.
CHECK_SECONDS = 10.0


def bridge_device(policy: EgressPolicy, network: str) -> str:
    """The device of an engine's network: at most 15 characters."""
    return PREFIXES[policy] + sha256(network.encode()).hexdigest()[:10]


def egress_text(resolvers: Iterable[str]) -> str:
    """For `nft -f`: the table instead of the one that is there, if any. `resolvers`: the addresses
    at which this machine asks for names, its own among them."""
    asked = sorted(resolvers)
    sources = [(policy, f'"{prefix}*"') for policy, prefix in PREFIXES.items()]
    to_node = [rule for source in sources for rule in to_node_rules(*source, asked)]
    beyond = [rule for source in sources for rule in beyond_rules(*source, asked)]
    chains = _chain("to_node", "input", to_node) + _chain("beyond", "forward", beyond)
    return f"add table inet {TABLE}\ndelete table inet {TABLE}\ntable inet {TABLE} {{\n{chains}}}\n"


def to_node_rules(policy: EgressPolicy, device: str, resolvers: Iterable[str]) -> Iterator[str]:
    """Of what bridges whose devices match `device` send to this machine itself."""
    source = f"iifname {device}"
    yield f"{source} ct state established,related accept"
    if policy is not EgressPolicy.NONE:
        yield from names_accepted(source, resolvers)
    yield f"{source} drop"


def beyond_rules(policy: EgressPolicy, device: str, resolvers: Iterable[str]) -> Iterator[str]:
    """Of what is forwarded from bridges whose devices match `device`. Between replicas of one
    bridge nothing is dropped."""
    source = f"iifname {device}"
    yield f"{source} oifname {device} accept"
    if policy is EgressPolicy.NONE:
        yield f"{source} drop"
        return
    # Those of clouds are at the address of the metadata.
    yield from names_accepted(source, resolvers)
    yield from metadata_dropped(source)
    if policy is EgressPolicy.INTERNET:
        for places in PRIVATE:
            yield f"{source} {places} drop"


def names_accepted(source: str, resolvers: Iterable[str]) -> Iterator[str]:
    for resolver in sorted(resolvers):
        family = "ip" if ip_address(resolver).version == 4 else "ip6"
        yield f"{source} {family} daddr {resolver} meta l4proto {{ tcp, udp }} th dport 53 accept"


def metadata_dropped(source: str) -> Iterator[str]:
    for family, version in (("ip", 4), ("ip6", 6)):
        own = [each for each in METADATA_ADDRESSES if each.version == version]
        yield f"{source} {family} daddr {{ {', '.join(map(str, own))} }} drop"


def _chain(name: str, hook: str, rules: Iterable[str]) -> str:
    lines = "".join(f"    {rule}\n" for rule in rules)
    head = f"    type filter hook {hook} priority {PRIORITY}; policy accept;\n"
    return f"  chain {name} {{\n{head}{lines}  }}\n"


class EgressTable:
    """That of this machine: agents of one machine write the same."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._text = ""
        self._check_at = 0.0
        self._stands = False

    def keep(self) -> bool:
        """Whether the table stands. It is made again where somebody else has removed it, or where
        names are asked at other addresses. False without the rights or the program for it."""
        now = self._clock()
        if not self._stands or now >= self._check_at:
            self._stands = os.geteuid() == 0 and self._is_made()
            self._check_at = now + CHECK_SECONDS
        return self._stands

    def _is_made(self) -> bool:
        text = egress_text(read_resolvers())
        is_there = not try_network_command(NFT, "list", "table", "inet", TABLE).failure
        if text == self._text and is_there:
            return True
        try:
            network_command(NFT, "-f", "-", input_text=text)
        except NetworkRefused:
            return False
        self._text = text
        return True
