"""What git is told for one fetch: by its environment alone, as other users see the arguments of a
program. Nothing of this machine's own configuration counts. Pure."""

import base64
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agents.contract.git_source import Address, GitSource
from agents.contract.message import Message
from agents.host.programs import ENVIRONMENT
from agents.runtime.base import RuntimeFailure

NOWHERE = "/dev/null"
# Where the owner of the node lists the keys of hosts, one line as `ssh-keyscan` prints it.
KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"
# A transfer slower than this, for as long, has stalled.
STALL_BYTES, STALL_SECONDS = 1_000, 60
# A token without a user name goes with this one, which hosts accept or ignore.
TOKEN_USER = "git"  # noqa: S105 - no token

_COMMON = {
    "core.hooksPath": NOWHERE,
    "core.fsmonitor": "false",
    "credential.helper": "",
    "fetch.recurseSubmodules": "false",
    "submodule.recurse": "false",
    # What a server sends is kept as it is: one file, whose size is limited.
    "fetch.unpackLimit": "1",
    "fetch.writeCommitGraph": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.version": "2",
    # A server may otherwise name further places to fetch from.
    "transfer.bundleURI": "false",
    "fetch.uriProtocols": "",
    "http.followRedirects": "false",
    "http.proxy": "",
    "http.lowSpeedLimit": str(STALL_BYTES),
    "http.lowSpeedTime": str(STALL_SECONDS),
    # So that memory does not grow with the files of a repository.
    "pack.threads": "1",
    "core.bigFileThreshold": "16m",
    "core.packedGitWindowSize": "32m",
    "core.packedGitLimit": "256m",
    "core.deltaBaseCacheLimit": "64m",
}


@dataclass(frozen=True, slots=True)
class SignIn:
    """How git proves who it is: a token for https, a file with a private key for ssh."""

    token: str = ""
    key_file: Path | None = None


NO_SIGN_IN = SignIn()


def local_environment() -> dict[str, str]:
    """For git without a network."""
    return _environment(_COMMON, protocol="none")


def fetch_environment(
    source: GitSource, addresses: Sequence[Address], sign_in: SignIn, ca_file: str = ""
) -> dict[str, str]:
    """For a fetch from this source, at these addresses. `ca_file`: the authorities that https
    trusts; empty for those of the machine."""
    if source.scheme == "ssh":
        ssh = {"GIT_SSH_COMMAND": _ssh_command(source, addresses[0], sign_in)}
        return _environment(_COMMON, source.scheme) | ssh | {"GIT_SSH_VARIANT": "ssh"}
    shown = ",".join(f"[{each}]" if each.version == 6 else str(each) for each in addresses)
    settings = {**_COMMON, "http.curloptResolve": f"{source.host}:{source.port}:{shown}"}
    if sign_in.token:
        settings["http.extraHeader"] = f"Authorization: Basic {_basic(sign_in.token)}"
    if ca_file:
        settings["http.sslCAInfo"] = ca_file
    return _environment(settings, source.scheme)


def read_token(value: str, name: str) -> str:
    """The token in a secret, which may begin with a user name and a colon. Raises RuntimeFailure if
    it cannot be one."""
    token = value.strip()
    if token and token.isascii() and token.isprintable():
        return token
    message = Message(
        "its code cannot be fetched: the secret %(name)s is no token, which is one line of text",
        name=name,
    )
    raise RuntimeFailure("git_unfetched", message.text, message)


def _environment(settings: Mapping[str, str], protocol: str) -> dict[str, str]:
    numbered = enumerate(settings.items())
    pairs = {
        name: text
        for n, (key, value) in numbered
        for name, text in ((f"GIT_CONFIG_KEY_{n}", key), (f"GIT_CONFIG_VALUE_{n}", value))
    }
    return {
        **ENVIRONMENT,
        # The folder in which it runs, and none above it.
        "GIT_DIR": ".",
        # No files of a home: .netrc, .ssh, .gitconfig.
        "HOME": NOWHERE,
        "XDG_CONFIG_HOME": NOWHERE,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": NOWHERE,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "SSH_ASKPASS_REQUIRE": "never",
        "GIT_ALLOW_PROTOCOL": protocol,
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_CONFIG_COUNT": str(len(settings)),
        **pairs,
    }


def _basic(token: str) -> str:
    words = token if ":" in token else f"{TOKEN_USER}:{token}"
    return base64.b64encode(words.encode()).decode()


def _ssh_command(source: GitSource, address: Address, sign_in: SignIn) -> str:
    # As it is written in a list of known hosts.
    alias = source.host if source.port == 22 else f"[{source.host}]:{source.port}"
    options = {
        "BatchMode": "yes",
        "HostName": str(address),
        "HostKeyAlias": alias,
        "CheckHostIP": "no",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": NOWHERE,
        "GlobalKnownHostsFile": KNOWN_HOSTS,
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "PreferredAuthentications": "publickey",
        "ProxyCommand": "none",
        "ClearAllForwardings": "yes",
        "PermitLocalCommand": "no",
        "ConnectTimeout": "30",
        "ServerAliveInterval": "15",
    }
    words = ["ssh", "-F", "none"]
    for name, value in options.items():
        words += ["-o", f"{name}={value}"]
    if sign_in.key_file is not None:
        words += ["-i", str(sign_in.key_file)]
    return shlex.join(words)
