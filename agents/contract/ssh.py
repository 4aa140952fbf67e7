"""SSH into one replica: the bytes of one connection, carried by one stream of the node's tunnel.

The node starts an SSH server in the replica for this stream alone. It first sends a line of JSON
(`SshGreeting`), with the server's key, which is used once. After it both sides speak SSH.
"""

import json
from dataclasses import dataclass, field

from agents.contract.codec import decode, encode, rule
from agents.contract.errors import ContractError

# Of Ed25519, as OpenSSH writes one: its kind and its 32 bytes in base64.
KEY_KIND = "ssh-ed25519"
KEY_PATTERN = r"[A-Za-z0-9+/]{68}"
# A user of the replica. Never an option of a command.
LOGIN_PATTERN = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
MAX_GREETING_BYTES = 512


class GreetingRefused(Exception):
    """The node sent what is no greeting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshRequest:
    """What a client asks of the portal."""

    # The only public key that the server takes.
    client_key: str = field(metadata=rule(pattern=KEY_PATTERN))


@dataclass(frozen=True, slots=True, kw_only=True)
class SshTarget(SshRequest):
    """The same in one replica that the node runs."""

    # The id of the attempt, which is the replica's fence.
    attempt: int = field(metadata=rule(minimum=1))
    rank: int = field(metadata=rule(minimum=0, maximum=65_535))
    # Closed after this time without a byte.
    idle_seconds: int = field(metadata=rule(minimum=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class SshGreeting:
    login: str = field(metadata=rule(pattern=LOGIN_PATTERN))
    """As whom to log in: the user that the replica runs as."""
    host_key: str = field(metadata=rule(pattern=KEY_PATTERN))


def write_request(request: SshRequest) -> bytes:
    return json.dumps(encode(request), separators=(",", ":")).encode()


def read_request(data: bytes) -> SshRequest:
    """Raises ContractError or ValueError."""
    return decode(SshRequest, json.loads(data))


def write_greeting(greeting: SshGreeting) -> bytes:
    return json.dumps(encode(greeting), separators=(",", ":")).encode() + b"\n"


def read_greeting(data: bytes) -> tuple[SshGreeting, bytes] | None:
    """The greeting, and the bytes of SSH behind it. None until its line is complete. Raises
    GreetingRefused."""
    line, end, rest = data.partition(b"\n")
    if not end and len(data) < MAX_GREETING_BYTES:
        return None
    try:
        return decode(SshGreeting, json.loads(line)), rest
    except (ContractError, ValueError) as error:
        raise GreetingRefused(str(error)) from None
