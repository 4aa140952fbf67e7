"""Code of a job from a git repository: how it is written, and which hosts and addresses a node may
ask. The one grammar for portal, planner and agents.

    source = "git+" ("https://" | "ssh://" [user "@"]) host [":" port] "/" path ["@" ref]

A name that resolves says nothing about where it leads: a node checks the addresses as well
(`address_problem`), right before it connects to one of them.
"""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

from agents.contract.codec import rule
from agents.contract.job_secrets import SECRET_NAME
from agents.contract.message import NO_MESSAGE, Message

PREFIX = "git+"
MAX_SOURCE_LENGTH = 500
MAX_REF_LENGTH = 200
MAX_GIT_HOSTS = 32
MAX_HOST_LENGTH = 253
COMMIT_PATTERN = r"[0-9a-f]{40}|[0-9a-f]{64}"
DEFAULT_PORTS = {"https": 443, "ssh": 22}
DEFAULT_USER = "git"

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
# The full hash of a commit; empty where that is not known.
GitCommit = Annotated[str, rule(max_length=64, pattern=rf"|{COMMIT_PATTERN}")]
# A host, with its port where that is not the usual one of https or ssh.
GitHost = Annotated[str, rule(max_length=MAX_HOST_LENGTH + len(":65535"))]

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
# No "@", which begins the ref, and nothing that a shell, a URL or git's own URLs give a meaning.
_PATH = re.compile(r"[A-Za-z0-9._~+-]+(?:/[A-Za-z0-9._~+-]+)*")
# Of what git allows, the part without a meaning in refspecs and revisions. Never an option.
_REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*(?:/[A-Za-z0-9_][A-Za-z0-9._+-]*)*")
_LAST_LABEL_OF_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_COMMIT = re.compile(COMMIT_PATTERN)
# How `git clone` also takes it: user@host:path.
_SHORT_SSH = re.compile(r"(?:([A-Za-z0-9_.-]+)@)?([A-Za-z0-9.-]+):([^/].*)")

# Names of this machine, or that resolve to addresses of a cloud's own services.
BARRED_NAMES = frozenset(
    ("localhost", "ip6-localhost", "ip6-loopback", "metadata", "metadata.google.internal")
)
BARRED_SUFFIXES = (".localhost", ".localdomain")
# Services of clouds for their machines, outside of the link-local networks.
CLOUD_SERVICES = frozenset(
    map(
        ipaddress.ip_address,
        ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"),
    )
)
# IPv4 addresses written inside IPv6 ones by translators.
_NAT64 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))


class GitSourceError(ValueError):
    """The text names no repository that may be used; `message` says what to write instead."""

    def __init__(self, message: Message, suggestion: str = "") -> None:
        super().__init__(message.text)
        self.message = message
        self.suggestion = suggestion
        """What was probably meant; empty if that is unknown."""


@dataclass(frozen=True, slots=True)
class GitSource:
    """A repository and what of it: a branch, a tag or a commit; its default branch if `ref` is
    empty."""

    scheme: str
    user: str
    host: str
    port: int
    path: str
    ref: str = ""

    @property
    def url(self) -> str:
        """For `git fetch`; with the port only where that is not the usual one."""
        user = f"{self.user}@" if self.user else ""
        return f"{self.scheme}://{user}{self.endpoint}/{self.path}"

    @property
    def endpoint(self) -> str:
        """The host, with its port where that is not the usual one: a word of `git_hosts`."""
        is_usual = self.port == DEFAULT_PORTS[self.scheme]
        return self.host if is_usual else f"{self.host}:{self.port}"

    @property
    def is_commit(self) -> bool:
        """Whether the ref is the full hash of a commit, which never means another one."""
        return _COMMIT.fullmatch(self.ref) is not None

    def __str__(self) -> str:
        return f"{PREFIX}{self.url}" + (f"@{self.ref}" if self.ref else "")


@dataclass(frozen=True, slots=True)
class DesiredGitCode:
    """The code folder of a replica is a commit of this repository, which its node fetches."""

    source: str = field(metadata=rule(max_length=MAX_SOURCE_LENGTH))
    # The commit that an earlier attempt or rank 0 has; empty where the ref decides.
    commit: GitCommit = ""
    # The secret of the replica by which its node signs in; empty without one.
    key: str = field(default="", metadata=rule(max_length=64, pattern=rf"|{SECRET_NAME}"))


def is_git_source(text: str) -> bool:
    """Whether it is meant as one, right or wrong: no id of a tree looks like that."""
    return ":" in text or "/" in text


def read_git_source(text: str) -> GitSource:
    """Raises GitSourceError."""
    if len(text) > MAX_SOURCE_LENGTH:
        sentence = Message("at most %(n)s characters", n=MAX_SOURCE_LENGTH)
        raise GitSourceError(sentence)
    scheme, _, rest = text.removeprefix(PREFIX).partition("://")
    if not text.startswith(PREFIX) or scheme not in DEFAULT_PORTS or not rest:
        sentence = Message(
            "write git+https://host/path or git+ssh://git@host/path, and @ with a branch, a tag or "
            "a commit"
        )
        raise GitSourceError(sentence, _probably_meant(text))
    authority, _, tail = rest.partition("/")
    path, at, ref = tail.partition("@")
    user, host, port = _read_authority(scheme, authority)
    _require_path(path)
    if at:
        _require_ref(ref)
    return GitSource(scheme, user, host, port, path, ref)


def is_commit_source(text: str) -> bool:
    """Whether a source names the full hash of a commit, which never means another one."""
    return _COMMIT.fullmatch(text.partition("://")[2].rpartition("@")[2]) is not None


def host_problem(host: str) -> Message:
    """Why nobody may fetch from a host of this name; NO_MESSAGE if it may be allowed."""
    if len(host) > MAX_HOST_LENGTH or not _HOST.fullmatch(host):
        return Message(
            "%(host)s is not the name of a host: use lower-case letters, digits, dots and hyphens",
            host=repr(host[:80]),
        )
    if host in BARRED_NAMES or host.endswith(BARRED_SUFFIXES):
        return _barred(host)
    if _LAST_LABEL_OF_NUMBER.fullmatch(host.rpartition(".")[2]):
        # 127.1, 0x7f.1 and 2130706433 are addresses, too, for those who resolve names.
        try:
            address = ipaddress.IPv4Address(host)
        except ValueError:
            return Message("%(host)s is not an address: write the name of the host", host=host)
        return _barred(host) if address_problem(address) else NO_MESSAGE
    return NO_MESSAGE


def endpoint_problem(text: str) -> Message:
    """Why the text is no word of `git_hosts`, a host with or without a port; NO_MESSAGE if it is
    one."""
    host, colon, port = text.partition(":")
    if colon and not _is_port(port):
        return Message("%(port)s is not a port", port=repr(port[:16]))
    return host_problem(host)


def address_problem(address: Address) -> str:
    """Why no node connects to this address, whatever its policy allows; empty if one may.

    A host's own network may be private: its name is on the list of the node's owner. What is barred
    are the machine itself and the services that trust whoever reaches them from it."""
    if inner := _wrapped(address):
        return address_problem(inner)
    if address.is_loopback or address.is_unspecified:
        return f"{address} is this machine"
    if address.is_link_local or address in CLOUD_SERVICES:
        return f"{address} is for services of this machine's own network or cloud"
    if address.is_multicast or (address.version == 4 and address.is_reserved):
        return f"{address} is no address of one machine"
    return ""


def is_endpoint_allowed(source: GitSource, allowed: Iterable[str]) -> bool:
    """Whether a node whose policy lists these hosts may fetch from there."""
    return source.endpoint in allowed


def _read_authority(scheme: str, authority: str) -> tuple[str, str, int]:
    """User, host and port."""
    user, at, place = authority.rpartition("@")
    if at and scheme == "https":
        sentence = Message(
            "write no user and no password: name a secret with NAME:git under Secrets, whose value "
            "is the token"
        )
        raise GitSourceError(sentence)
    if at and not _USER.fullmatch(user):
        raise GitSourceError(Message("%(user)s is not a user name", user=repr(user[:64])))
    host, colon, port = place.partition(":")
    if colon and not _is_port(port):
        raise GitSourceError(Message("%(port)s is not a port", port=repr(port[:16])))
    host = host.lower()
    if problem := host_problem(host):
        raise GitSourceError(problem)
    user = (user or DEFAULT_USER) if scheme == "ssh" else ""
    return user, host, int(port) if colon else DEFAULT_PORTS[scheme]


def _require_path(path: str) -> None:
    parts = path.split("/")
    # ssh gives it to a command of the server.
    if not _PATH.fullmatch(path) or any(part in (".", "..") or part[0] == "-" for part in parts):
        raise GitSourceError(
            Message(
                "%(path)s is not a path of a repository: use letters, digits, dots, hyphens and "
                "underscores, such as team/project.git",
                path=repr(path[:80]),
            )
        )


def _require_ref(ref: str) -> None:
    is_odd = ".." in ref or ref.endswith(".") or any(p.endswith(".lock") for p in ref.split("/"))
    if len(ref) > MAX_REF_LENGTH or is_odd or not _REF.fullmatch(ref):
        sentence = Message(
            "%(ref)s is not a branch, a tag or a commit: use letters, digits, dots, hyphens, "
            "underscores and slashes",
            ref=repr(ref[:80]),
        )
        raise GitSourceError(sentence)


def _probably_meant(text: str) -> str:
    """The same repository as a source, if the text is a URL of another spelling."""
    short = _SHORT_SSH.fullmatch(text)
    if "://" not in text and short:
        user, host, path = short.groups()
        guess = f"{PREFIX}ssh://{user or DEFAULT_USER}@{host}/{path}"
    else:
        guess = PREFIX + text.removeprefix(PREFIX)
    try:
        return str(read_git_source(guess)) if guess != text else ""
    except GitSourceError:
        return ""


def _is_port(text: str) -> bool:
    return _PORT.fullmatch(text) is not None and int(text) <= 65_535


def _barred(host: str) -> Message:
    return Message("%(host)s is not reached from nodes: use a host of your network", host=host)


def _wrapped(address: Address) -> ipaddress.IPv4Address | None:
    if not isinstance(address, ipaddress.IPv6Address):
        return None
    if any(address in network for network in _NAT64):
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    if address.teredo:
        return address.teredo[1]
    return address.ipv4_mapped or address.sixtofour
