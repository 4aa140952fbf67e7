"""`python -m agents.launchers show LAUNCHER -f job.yaml [--json]`: how a job would be started.

For developers: prints the environment, the command and the files of each replica of a request.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from agents.contract.documents import Rendezvous
from agents.contract.launcher_names import LauncherName
from agents.launchers.base import LaunchRequest
from agents.launchers.nested import nested_launcher
from agents.launchers.preview import (
    ASSUMED_PORT,
    ReplicaStart,
    assumed_devices,
    assumed_rendezvous,
    gang_starts,
)
from agents.launchers.registry import launch_refusal
from agents.launchers.request_file import read_request, requested_replica


def main(arguments: Sequence[str] | None = None) -> int:
    """1 if the request is refused or cannot be read."""
    options = _parser().parse_args(arguments)
    try:
        starts = _starts(options)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if options.json:
        sys.stdout.write(json.dumps([asdict(start) for start in starts], indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(map(_text, starts)))
    return 0


def _starts(options: argparse.Namespace) -> list[ReplicaStart]:
    """Raises OSError, or ValueError with the sentence of a refusal."""
    launcher = LauncherName(options.launcher)
    replica = requested_replica(read_request(options.file), launcher)
    asked = LaunchRequest.of_replica(replica)
    if refusal := nested_launcher(launcher, asked) or launch_refusal(launcher, asked):
        raise ValueError(f"{refusal.field}: {refusal.why.text}")
    peers = tuple(options.address) or assumed_rendezvous(replica.world).peers
    devices = [uuids.split(",") for uuids in options.devices] or assumed_devices(replica)
    if not len(peers) == len(devices) == replica.world:
        raise ValueError(f"give --address and --devices {replica.world} times, for each replica")
    return gang_starts(replica, Rendezvous(peers[0], options.port, peers), devices)


def _text(start: ReplicaStart) -> str:
    lines = [f"# replica {start.rank}", *(f"{k}={v}" for k, v in start.environment.items())]
    lines += ["", shlex.join(start.command), ""]
    for path, text in start.files.items():
        lines += [f"## {path}", text]
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m agents.launchers", description=__doc__)
    show = parser.add_subparsers(dest="command", required=True).add_parser("show")
    show.add_argument("launcher", choices=[str(name) for name in LauncherName])
    show.add_argument("-f", "--file", type=Path, required=True, help="a job request, YAML or JSON")
    show.add_argument("--json", action="store_true")
    show.add_argument("--address", action="append", default=[], help="of each replica, by rank")
    show.add_argument("--devices", action="append", default=[], help="UUIDs of each, with commas")
    show.add_argument("--port", type=int, default=ASSUMED_PORT, help="where rank 0 listens")
    return parser


if __name__ == "__main__":
    sys.exit(main())
