"""The architecture of this machine's processors."""

import platform

# As images name it, by what the kernel says.
_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}


def architecture() -> str:
    """In Docker's words: "amd64", "arm64"."""
    machine = platform.machine()
    return _NAMES.get(machine, machine)
