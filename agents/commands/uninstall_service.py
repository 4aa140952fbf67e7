"""`agents uninstall-service`: stops and removes the service. Containers, processes and MPS shares
go on; the agent's folder, with the node's key, stays."""

import argparse
import os
import sys

from agents.service.installation import InstallationFailed, ServiceInstallation
from agents.service.unit import NAME


def main(options: argparse.Namespace) -> int:
    """The exit status is 0 also if nothing was installed."""
    service = ServiceInstallation(options.root.absolute())
    present = service.present_paths()
    if not present:
        sys.stdout.write(f"{NAME} is not installed\n")
        return 0
    if options.dry_run:
        sys.stdout.write("".join(f"remove     {path}\n" for path in present))
        return 0
    if service.is_live and os.geteuid() != 0:
        sys.stderr.write("Not removed: it needs root: run it with sudo\n")
        return 1
    try:
        done = service.uninstall()
    except InstallationFailed as failed:
        sys.stderr.write(f"Not removed: {failed}\n")
        return 1
    sys.stdout.write("".join(f"{line}\n" for line in done))
    sys.stdout.write(
        "What runs on this node goes on, and the agent's folder stays. To leave the portal, cordon "
        "and retire the node there; then delete the folder.\n"
    )
    return 0
