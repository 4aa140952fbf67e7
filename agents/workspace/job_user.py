"""The user that a replica runs as: its login name, and the entries by which programs know it.

Without an entry for the uid, `getpass.getuser`, ssh and many libraries fail. Pure."""

import hashlib
import re
from pathlib import Path

from agents.workspace.folders import IN_CONTAINER

LONGEST_NAME = 32
# Of users that have an entry of their own in each container.
RESERVED_NAMES = frozenset(("root", "nobody"))
# Of nobody.
OVERFLOW_UID = 65_534
FALLBACK_NAME = "job"
_ODD = re.compile(r"[^a-z0-9_-]+")


def login_name(user: str) -> str:
    """The name of a portal's user as Linux takes one: that before the @ of an address."""
    name = _ODD.sub("-", user.lower().partition("@")[0]).strip("-")[:LONGEST_NAME]
    if not name or name in RESERVED_NAMES:
        return FALLBACK_NAME
    return name if name[0].isalpha() or name[0] == "_" else f"_{name}"[:LONGEST_NAME]


def home_name(user: str) -> str:
    """The folder of a portal's user in a volume of homes: the login name, if the user has just that
    name; else with a digest after a dot, which no login name has. So no two users share one."""
    name = login_name(user)
    if name == user:
        return name
    return f"{name}.{hashlib.sha256(user.encode('utf-8', 'replace')).hexdigest()[:12]}"


def passwd_entries(uid: int, name: str, home: Path = IN_CONTAINER.scratch) -> str:
    """The content of /etc/passwd. `home`: of the user, in the container."""
    entries = [
        "root:x:0:0:root:/root:/bin/sh",
        f"{name}:x:{uid}:{uid}::{home}:/bin/sh",
    ]
    # The first entry of a uid counts.
    entries.append(f"nobody:x:{OVERFLOW_UID}:{OVERFLOW_UID}:nobody:/nonexistent:/bin/false")
    return "\n".join(entries) + "\n"


def group_entries(gid: int, name: str) -> str:
    """The content of /etc/group."""
    return f"root:x:0:\n{name}:x:{gid}:\nnogroup:x:{OVERFLOW_UID}:\n"
