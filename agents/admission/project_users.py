"""The user id that the jobs of a project run as: one of a range, by the project's name. Pure.

So it is the same on every node with the same range, also for files on a shared volume, and the
portal has no part in it. Two projects of a large installation may meet at one id; each container
still sees the folders of its own replica only."""

import re
from hashlib import sha256

# Ids that no distribution and no tool hands out: above those of systemd's containers, below 2^31.
DEFAULT_RANGE = "1900000000-2099999999"
# Below it are users of the machine.
LOWEST, HIGHEST = 1_000, (1 << 31) - 1
_RANGE = re.compile(r"([0-9]{1,10})-([0-9]{1,10})")


def read_range(text: str) -> range | None:
    """None for "off". Raises ValueError with what is wrong."""
    if text == "off":
        return None
    match = _RANGE.fullmatch(text)
    if match is None:
        raise ValueError(f'must be "off" or a range of user ids such as "{DEFAULT_RANGE}"')
    first, last = int(match[1]), int(match[2])
    if not LOWEST <= first <= last <= HIGHEST:
        raise ValueError(f"must rise, from {LOWEST} to {HIGHEST} at most")
    return range(first, last + 1)


def project_user(users: range, project: str) -> int:
    """Always the same for the same project."""
    digest = sha256(project.encode()).digest()
    return users[int.from_bytes(digest[:8], "big") % len(users)]
