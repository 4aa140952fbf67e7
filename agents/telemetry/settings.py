"""Settings of telemetry: the Prometheus address and the sampling interval."""

import ipaddress
from dataclasses import dataclass

LOOPBACK = "127.0.0.1"
MAX_SECONDS = 3_600.0


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address(words: str) -> Address:
    """HOST:PORT, or PORT alone for loopback. IPv6 in brackets. Raises ValueError."""
    host, _, port = words.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if host != bare:
        ipaddress.IPv6Address(bare)
    elif ":" in host:
        raise ValueError(f"{words!r}: put an IPv6 address in brackets")
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ValueError(f"{words!r} is not HOST:PORT")
    return Address(bare or LOOPBACK, int(port))


def sample_seconds(words: str) -> float:
    """The interval between two readings; 0: no readings. Raises ValueError."""
    seconds = float(words)
    if seconds == 0 or 1 <= seconds <= MAX_SECONDS:
        return seconds
    raise ValueError(f"{words!r} is neither 0 nor between 1 and {MAX_SECONDS:.0f}")
