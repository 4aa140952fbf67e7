"""The commands that join a machine to the portal as a node, ready to be pasted there."""

import shlex
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

# Where docs/operations.md installs the agent, and where its service keeps its folder.
PROGRAM = "/opt/tessera/bin/tessera-agent"
FOLDER = "/var/lib/tessera-agent"
# The next line belongs to the same command.
CONTINUED = " \\\n  "


@dataclass(frozen=True, slots=True)
class JoinCommand:
    """Both forms of one command. The token comes from standard input, so that no list of processes
    shows it."""

    service: str
    """Installs the agent as a service of systemd."""
    foreground: str
    """Runs the agent until it is ended, for machines with a supervisor of their own."""


def join_command(*, portal: str, node: str, token: str, ca_file: str = "") -> JoinCommand:
    """`portal`: its address, as the reader's browser knows it. `ca_file`: on the node."""
    way = f"--portal {shlex.quote(portal)} --name {shlex.quote(node)}"
    if ca_file:
        way += f" --ca-file {shlex.quote(ca_file)}"
    if is_plain_http(portal):
        way += " --allow-plain-http"
    token_words = f"--join-token-file /dev/stdin <<< {shlex.quote(token)}"
    service = (f"sudo {PROGRAM} install-service", way, token_words)
    foreground = (f"sudo {PROGRAM} run --var {FOLDER}", way, token_words)
    return JoinCommand(CONTINUED.join(service), CONTINUED.join(foreground))


def is_plain_http(portal: str) -> bool:
    """Whether calls to the portal cross a network without TLS; an agent asks to be told so."""
    parts = urlsplit(portal)
    return parts.scheme == "http" and not _is_this_machine(parts.hostname or "")


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
