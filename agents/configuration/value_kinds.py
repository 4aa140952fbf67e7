"""What the value of a setting can be: how its text is read, and the words for what is allowed."""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

YES, NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
# Of hosts that the Internet does not reach.
PRIVATE_RANGES = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
DOMAIN_TEXT = re.compile(r"(?:[a-z0-9](?:-?[a-z0-9])*\.)*[a-z](?:-?[a-z0-9])*")
RATE_TEXT = re.compile(r"[1-9][0-9]*/(s|sec|second|m|min|minute|h|hour|d|day)")


@dataclass(frozen=True, slots=True)
class ValueKind:
    allowed: str
    """Completes the sentence "it must be …"."""
    parse: Callable[[str], object]
    """The value of a text. Raises ValueError."""


def _port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) < 65_536:
        raise ValueError(text)
    return int(text)


PORT = ValueKind("a number from 1 to 65535", _port)


def whole_number(minimum: int = 0) -> ValueKind:
    def parse(text: str) -> int:
        if (number := int(text)) < minimum:
            raise ValueError(text)
        return number

    return ValueKind(f"a whole number, {minimum} or more", parse)


def _number(text: str) -> float:
    if not 0 <= (number := float(text)) < float("inf"):
        raise ValueError(text)
    return number


def choice(*values: str) -> ValueKind:
    def parse(text: str) -> str:
        if text not in values:
            raise ValueError(text)
        return text

    return ValueKind(" or ".join(f"`{value}`" for value in values), parse)


def url(*schemes: str) -> ValueKind:
    """An address such as https://host:port/path; without schemes, of any."""

    def parse(text: str) -> str:
        parts = urlsplit(text)
        # `port` raises ValueError where the host is followed by something else.
        if not parts.scheme or "://" not in text or (parts.port or 1) < 1:
            raise ValueError(text)
        if schemes and parts.scheme not in schemes:
            raise ValueError(text)
        return text

    names = " or ".join(f"`{scheme}://`" for scheme in schemes)
    return ValueKind(f"a URL that begins with {names}" if schemes else "a URL", parse)


def _yes_or_no(text: str) -> bool:
    if text.lower() in YES + NO:
        return text.lower() in YES
    raise ValueError(text)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in re.split(r"[,\n]", text) if word.strip())


def _rate(text: str) -> str:
    if not RATE_TEXT.fullmatch(text):
        raise ValueError(text)
    return text


def _networks(text: str) -> str:
    for part in _words(text):
        ipaddress.ip_network(part)
    return text


def _gang_range(text: str) -> str:
    network = ipaddress.IPv4Network(text)
    if not 8 <= network.prefixlen <= 26 or not any(
        network.subnet_of(ipaddress.IPv4Network(shared)) for shared in PRIVATE_RANGES
    ):
        raise ValueError(text)
    return text


def _domain(text: str) -> str:
    if not DOMAIN_TEXT.fullmatch(text):
        raise ValueError(text)
    return text


def _time_zone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(text) from error
    return text


TEXT = ValueKind("a text", str)
PATH = ValueKind("a path", Path)
NUMBER = ValueKind("a number, 0 or more", _number)
YES_OR_NO = ValueKind("`true` or `false`", _yes_or_no)
WORDS = ValueKind("a list with commas", _words)
RATE = ValueKind("a number per s, min, hour or day, such as 1200/min", _rate)
NETWORKS = ValueKind("networks with commas, such as 10.20.0.0/16", _networks)
DOMAIN = ValueKind("the name of a domain in small letters, such as apps-example.net", _domain)
GANG_RANGE = ValueKind("a private IPv4 network from /8 to /26, such as 10.213.0.0/16", _gang_range)
LOG_FORMAT = choice("json", "text")
TIME_ZONE = ValueKind("a time zone, such as Europe/Berlin", _time_zone)


def kind_of(default: object) -> ValueKind:
    """The kind of a setting that says nothing but its default."""
    if isinstance(default, bool):
        return YES_OR_NO
    if isinstance(default, int):
        return whole_number()
    if isinstance(default, float):
        return NUMBER
    if isinstance(default, tuple):
        return WORDS
    return PATH if isinstance(default, Path) else TEXT
