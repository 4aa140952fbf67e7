"""What one agent is told at its start: typed, read once from arguments and environment."""

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from agents.contract.documents import RuntimeKind


@dataclass(frozen=True, slots=True)
class Settings:
    """`simulated_driver` is the state file of a simulated node, or None for the real driver."""

    portal: str
    var: Path
    name: str
    runtime: RuntimeKind
    policy: Path | None
    join_token: str
    simulated_driver: Path | None
    stop_jobs_on_exit: bool = False


def parser() -> argparse.ArgumentParser:
    """Arguments of `python -m agents`. Secrets come by file or environment, never by argument."""
    found = argparse.ArgumentParser(prog="python -m agents", description="The Tessera node agent.")
    commands = found.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="enrol if need be, then keep this node as desired")
    run.add_argument("--portal", default=os.environ.get("TESSERA_PORTAL_URL", ""), help="its URL")
    run.add_argument("--var", type=Path, default=os.environ.get("TESSERA_AGENT_VAR", "var/agent"))
    run.add_argument("--name", default=os.environ.get("TESSERA_NODE_NAME") or os.uname().nodename)
    run.add_argument(
        "--runtime",
        type=RuntimeKind,
        choices=list(RuntimeKind),
        default=os.environ.get("TESSERA_RUNTIME") or RuntimeKind.DOCKER,
    )
    run.add_argument("--policy", type=Path, help="the root-owned policy file of this node")
    run.add_argument("--join-token-file", type=Path, help="else TESSERA_JOIN_TOKEN is read")
    run.add_argument("--stop-jobs-on-exit", action="store_true", help="for demonstrations")
    return found


def settings_from(options: argparse.Namespace) -> Settings:
    """Raises SystemExit with one sentence where something is missing."""
    if not options.portal:
        raise SystemExit("Name the portal: --portal URL or TESSERA_PORTAL_URL.")
    token = os.environ.get("TESSERA_JOIN_TOKEN", "")
    if options.join_token_file:
        token = options.join_token_file.read_text("utf-8").strip()
    simulated = os.environ.get("TESSERA_SIMULATED_DRIVER", "")
    return Settings(
        portal=options.portal.rstrip("/"),
        var=options.var,
        name=options.name,
        runtime=RuntimeKind(options.runtime),
        policy=options.policy,
        join_token=token,
        simulated_driver=Path(simulated) if simulated else None,
        stop_jobs_on_exit=options.stop_jobs_on_exit,
    )
