"""Where this machine asks for names, and so do the replicas on it."""

import contextlib
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path

# Docker reads the second one where the first one names systemd's resolver on loopback.
RESOLV_CONFS = (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf"))


def read_resolvers(resolv_confs: Iterable[Path] = RESOLV_CONFS) -> tuple[str, ...]:
    """The addresses, other than loopback, at which this machine asks for names."""
    lines = [line.split() for path in resolv_confs for line in _text(path).splitlines()]
    found = set()
    for words in lines:
        if words[:1] == ["nameserver"] and words[1:]:
            with contextlib.suppress(ValueError):
                address = ip_address(words[1].partition("%")[0])
                found |= set() if address.is_loopback else {str(address)}
    return tuple(sorted(found))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
