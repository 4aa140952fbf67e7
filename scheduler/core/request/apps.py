"""Reads the apps of a request: ports of rank 0 that the portal serves, each under a name."""

import re
from collections.abc import Iterable
from typing import Any

from agents.contract.message import Message
from scheduler.core.request.values import ProblemCode, Refuse

MAX_APPS = 4
# A part of a host name; two hyphens in a row separate it from the job there.
APP_NAME = r"[a-z](?:-?[a-z0-9]){0,19}"
_APP = re.compile(rf"({APP_NAME}):([0-9]{{1,5}})")
PORTS = range(1, 65_536)


def read_apps(value: Any, refuse: Refuse) -> tuple[str, ...]:
    """Each is written as NAME:PORT, and stored so."""
    if not isinstance(value, list) or len(value) > MAX_APPS:
        sentence = Message("write a list of at most %(most)s apps, such as web:8080", most=MAX_APPS)
        refuse("apps", ProblemCode.TYPE, sentence)
        return ()
    found: dict[str, int] = {}
    for index, entry in enumerate(value):
        app = _APP.fullmatch(entry.strip()) if isinstance(entry, str) else None
        if app is None or int(app[2]) not in PORTS:
            sentence = Message(
                "write an app as NAME:PORT, such as web:8080: the name in at most 20 small "
                "letters, digits and single hyphens"
            )
            refuse(f"apps.{index}", ProblemCode.VALUE, sentence)
        elif app[1] in found:
            refuse(f"apps.{index}", ProblemCode.VALUE, "give each app a name of its own")
        else:
            found[app[1]] = int(app[2])
    return tuple(f"{name}:{port}" for name, port in found.items())


def app_ports(apps: Iterable[str]) -> dict[str, int]:
    """The port of each app by its name, of a request that was read."""
    return {name: int(port) for name, _, port in (app.partition(":") for app in apps)}
