"""What one agent is told at its start: typed, read once from arguments and environment."""

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from agents.contract.documents import RuntimeKind
from agents.host.job_disk import DEFAULT_RESERVE, ENGINE_FOLDER, DiskReserve, JobDisk, parse_reserve
from agents.simdriver.arguments import describe
from agents.telemetry.settings import Address, address, look_seconds

# Commands that only read the node's hardware; they need no portal.
READING_COMMANDS = {
    "inventory": "what the driver says of this node: GPUs, MIG profiles, instances",
    "topology": "how the GPUs of this node are joined, as `nvidia-smi topo -m` prints it",
}


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """`simulated_driver` is the state file of a simulated node, or None for the real driver.
    `mps_control`: the MPS control program; empty for NVIDIA's, or the simulated node's own.
    `telemetry_seconds` between two looks at the sensors, 0: none; `metrics`: None for no page.
    `disk_folder`: where jobs write, None to let the runtime say; `disk_reserve` is kept of it."""

    portal: str
    var: Path
    name: str
    runtime: RuntimeKind
    policy: Path | None
    join_token: str
    simulated_driver: Path | None
    stop_jobs_on_exit: bool = False
    mps_control: str = ""
    telemetry_seconds: float = 10.0
    metrics: Address | None = None
    disk_folder: Path | None = None
    disk_reserve: DiskReserve = DEFAULT_RESERVE


def parser() -> argparse.ArgumentParser:
    """Arguments of `python -m agents`. Secrets come by file or environment, never by argument."""
    found = argparse.ArgumentParser(prog="python -m agents", description="The Tessera node agent.")
    commands = found.add_subparsers(dest="command", required=True)
    _add_run(commands.add_parser("run", help="enrol if need be, then keep this node as desired"))
    for name, says in READING_COMMANDS.items():
        reading = commands.add_parser(name, help=says)
        reading.add_argument("--json", action="store_true", help="by the schema in docs/schemas")
        reading.add_argument("--sysfs", type=Path, help="else TESSERA_SYSFS, else /sys")
        if name == "inventory":
            _add_place(reading)
            _add_disk(reading)
    _add_doctor(commands.add_parser("doctor", help="what to mend on this machine; changes nothing"))
    _add_drill(
        commands.add_parser("drill", help="end the agent anywhere: does it find its way back?")
    )
    describe(commands.add_parser("simulate", help="make, show or disturb a simulated node"))
    return found


def _add_run(run: argparse.ArgumentParser) -> None:
    run.add_argument("--portal", default=os.environ.get("TESSERA_PORTAL_URL", ""), help="its URL")
    run.add_argument("--name", default=os.environ.get("TESSERA_NODE_NAME") or os.uname().nodename)
    _add_place(run)
    _add_disk(run)
    run.add_argument("--policy", type=Path, help="the root-owned policy file of this node")
    run.add_argument("--join-token-file", type=Path, help="else TESSERA_JOIN_TOKEN is read")
    run.add_argument(
        "--telemetry-seconds",
        type=look_seconds,
        default=os.environ.get("TESSERA_AGENT_TELEMETRY_SECONDS", "10"),
        help="between two looks at the sensors, 1 to 3600; 0: none (default 10)",
    )
    run.add_argument(
        "--metrics",
        type=address,
        default=os.environ.get("TESSERA_METRICS") or None,
        metavar="HOST:PORT",
        help="a page for Prometheus, such as 127.0.0.1:9400 (default: none)",
    )
    run.add_argument("--stop-jobs-on-exit", action="store_true", help="for demonstrations")


def _add_place(command: argparse.ArgumentParser) -> None:
    """Where the agent keeps its things, and what it runs replicas with."""
    folder = os.environ.get("TESSERA_AGENT_VAR", "var/agent")
    command.add_argument("--var", type=Path, default=folder, help="the agent's folder")
    command.add_argument(
        "--runtime",
        type=RuntimeKind,
        choices=list(RuntimeKind),
        default=os.environ.get("TESSERA_RUNTIME") or RuntimeKind.DOCKER,
    )


def _add_disk(command: argparse.ArgumentParser) -> None:
    """What jobs may have of the disk that they write to."""
    command.add_argument(
        "--disk-folder",
        type=Path,
        default=os.environ.get("TESSERA_AGENT_DISK_FOLDER") or None,
        help="where jobs write (default: the engine's folder, or --var without one)",
    )
    command.add_argument(
        "--disk-reserve",
        type=parse_reserve,
        default=os.environ.get("TESSERA_AGENT_DISK_RESERVE") or DEFAULT_RESERVE,
        metavar="20%|200GiB",
        help="kept from jobs for images, logs and the system (default: 20%%, at least 10GiB)",
    )


def job_disk(options: argparse.Namespace) -> JobDisk:
    """As an agent with these arguments will say, where the engine's folder is Docker's default."""
    own = options.var if options.runtime == RuntimeKind.PROCESS else ENGINE_FOLDER
    return JobDisk(options.disk_folder or own, options.disk_reserve)


def _add_doctor(doctor: argparse.ArgumentParser) -> None:
    doctor.add_argument("--json", action="store_true", help="for programs")
    _add_place(doctor)


def _add_drill(drill: argparse.ArgumentParser) -> None:
    drill.add_argument("--every", type=int, default=1, help="only every Nth point (1: all)")
    drill.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    drill.add_argument("--random", type=int, default=0, metavar="N", help="N steps at random")
    drill.add_argument("--seed", type=int, default=1, help="the same seed takes the same steps")
    drill.add_argument("--json", action="store_true", help="one JSON object and nothing else")
    drill.add_argument(
        "--runtime", type=RuntimeKind, choices=list(RuntimeKind), default=RuntimeKind.PROCESS
    )
    drill.add_argument("--engine", default="", metavar="URL", help="docker: else DOCKER_HOST")
    drill.add_argument("--image", default="", help="docker: one with sh and sleep")


def settings_from(options: argparse.Namespace) -> AgentSettings:
    """Raises SystemExit with one sentence where something is missing."""
    if not options.portal:
        raise SystemExit("Name the portal: --portal URL or TESSERA_PORTAL_URL.")
    token = os.environ.get("TESSERA_JOIN_TOKEN", "")
    if options.join_token_file:
        token = options.join_token_file.read_text("utf-8").strip()
    return AgentSettings(
        portal=options.portal.rstrip("/"),
        var=options.var,
        name=options.name,
        runtime=RuntimeKind(options.runtime),
        policy=options.policy,
        join_token=token,
        simulated_driver=simulated_driver(),
        stop_jobs_on_exit=options.stop_jobs_on_exit,
        mps_control=os.environ.get("TESSERA_MPS_CONTROL", ""),
        telemetry_seconds=options.telemetry_seconds,
        metrics=options.metrics,
        disk_folder=options.disk_folder,
        disk_reserve=options.disk_reserve,
    )


def simulated_driver() -> Path | None:
    """The state file that TESSERA_SIMULATED_DRIVER names; None stands for the real driver."""
    named = os.environ.get("TESSERA_SIMULATED_DRIVER", "")
    return Path(named) if named else None
