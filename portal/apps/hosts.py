"""The hosts of apps, `web--j12.apps.example`, and of services, `llm--s5.apps.example`: made for
links, read from calls.

A call belongs to the apps if its host lies below their domain, whether or not it names one. The
domain itself does not.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.core.request.apps import APP_NAME

_LABEL = re.compile(rf"({APP_NAME})--([js])([1-9][0-9]{{0,17}})")
# A port alone may differ from what the domain's setting has.
_PORT = re.compile(r":[0-9]{1,5}\Z")

Headers = Iterable[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class AppName:
    """An app of a job, or a service, as a host names it. Nothing is known of either yet."""

    job_pk: int
    """0 for a service."""
    app: str
    service_pk: int = 0

    @property
    def label(self) -> str:
        """The first part of its host."""
        owner = f"s{self.service_pk}" if self.service_pk else f"j{self.job_pk}"
        return f"{self.app}--{owner}"

    @property
    def place(self) -> str:
        """The label of its job or service, on whose page it is opened."""
        return f"S-{self.service_pk}" if self.service_pk else f"J-{self.job_pk}"


def app_host(name: AppName, domain: str, port: str = "") -> str:
    """With `port`, unless it is empty."""
    return f"{name.label}.{domain}" + (f":{port}" if port else "")


def app_address(name: AppName, domain: str, portal: str) -> str:
    """Where a browser that calls the portal at `portal` ("https://HOST:PORT") finds the app; empty
    without a domain."""
    scheme, _, host = portal.rstrip("/").partition("://")
    _, colon, port = host.rpartition(":")
    return f"{scheme}://{app_host(name, domain, port if colon else '')}" if domain else ""


def named_app(host: str, domain: str) -> AppName | None:
    """The app or service whose host this is; None for another host below the domain."""
    label = _without_port(host).removesuffix("." + domain)
    found = _LABEL.fullmatch(label)
    if not found:
        return None
    key = int(found[3])
    return AppName(0, found[1], key) if found[2] == "s" else AppName(key, found[1])


def is_below(host: str, domain: str) -> bool:
    """Whether a call to this host is one of the apps'. Never without a domain."""
    return bool(domain) and _without_port(host).endswith("." + domain)


def called_hosts(headers: Headers) -> list[str]:
    """Every `Host` of a call: one, unless somebody hopes that two readers choose differently."""
    return [value.decode("latin-1") for key, value in headers if key == b"host"]


def is_for_apps(headers: Headers, domain: str) -> bool:
    """Whether the apps answer this call; one with several hosts, if any of them is theirs."""
    return bool(domain) and any(is_below(host, domain) for host in called_hosts(headers))


def shared_site(domain: str, hosts: Sequence[str]) -> str:
    """The first of the portal's hosts that shares cookies with the apps' domain; "" if none does.

    Two names share them if their last two labels are the same, as far as one can tell without the
    Public Suffix List: a page of either may set cookies for both.
    """
    for host in hosts:
        name = host.lstrip(".").lower()
        if name != "localhost" and _site(name) == _site(domain):
            return host
    return ""


def _site(name: str) -> tuple[str, ...]:
    return tuple(name.split(".")[-2:])


def _without_port(host: str) -> str:
    return _PORT.sub("", host.lower()).removesuffix(".")
