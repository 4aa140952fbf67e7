"""Starts programs outside of the agent's own service, where systemd runs the machine."""

import os
import shutil
from pathlib import Path

from agents.host.programs import SEARCH_PATH

# Exists while systemd runs the machine, see sd_booted(3).
SYSTEMD_RUNS = Path("/run/systemd/system")


def scope_prefix(description: str) -> tuple[str, ...]:
    """Words before a command line that start it in a scope of its own: whatever happens to the
    agent's service does not reach it. Empty without root or systemd.

    systemd-run becomes the program itself, so pid, output and exit status are the program's."""
    program = shutil.which("systemd-run", path=SEARCH_PATH)
    if program is None or os.geteuid() != 0 or not SYSTEMD_RUNS.is_dir():
        return ()
    return (program, "--scope", "--quiet", "--collect", f"--description={description}", "--")
