"""Where git connects to: the addresses of a host, each checked, and no others."""

import ipaddress
import socket
from collections.abc import Callable, Sequence

from agents.contract.git_source import Address, GitSource, address_problem
from agents.contract.message import Message
from agents.runtime.base import RuntimeFailure

Resolve = Callable[[str, int], Sequence[str]]
"""The addresses of a host name. Raises OSError."""
AddressProblem = Callable[[Address], str]
"""Why a node must not connect to an address; empty if it may."""


def resolve_host(host: str, port: int) -> list[str]:
    """In the order in which this machine would try them. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def checked_addresses(
    source: GitSource,
    resolve: Resolve = resolve_host,
    problem_of: AddressProblem = address_problem,
) -> tuple[Address, ...]:
    """Those of the source's host. One that is barred bars the host: whoever has its name may move
    it. Git is told these addresses, so that it resolves nothing again.

    Raises RuntimeFailure."""
    try:
        texts = resolve(source.host, source.port)
        # Without the zone of a link-local one, which is refused.
        found = tuple(ipaddress.ip_address(text.partition("%")[0]) for text in texts)
    except (OSError, ValueError) as error:
        raise _unknown(source) from error
    if not found:
        raise _unknown(source)
    if why := next(filter(None, map(problem_of, found)), ""):
        message = Message(
            "its code is not fetched: %(host)s means %(why)s", host=source.host, why=why
        )
        raise RuntimeFailure("git_forbidden", message.text, message)
    return found


def _unknown(source: GitSource) -> RuntimeFailure:
    message = Message("its code cannot be fetched: %(host)s has no address", host=source.host)
    return RuntimeFailure("git_unfetched", message.text, message)
