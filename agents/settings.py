"""The settings of an agent: typed, read once from arguments and environment."""

import argparse
import os
import re
import ssl
import sys
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from agents.configuration.agent_settings import AgentVariables
from agents.configuration.reading import SettingsError, read_settings
from agents.contract.documents import RuntimeKind
from agents.contract.version import VERSION
from agents.host.job_disk import DEFAULT_RESERVE, DiskReserve, JobDisk, parse_reserve
from agents.route.portal_route import PortalRoute, address_problem, has_password, proxy_problem
from agents.simdriver.arguments import add_arguments
from agents.telemetry.settings import Address, address, sample_seconds

# A small image with sh and glibc, which the driver's programs need.
SMOKE_IMAGE = "ubuntu:24.04"
# Commands that only read the node's hardware; they need no portal.
READING_COMMANDS = {
    "inventory": "show this node's GPUs, MIG profiles and MIG instances",
    "topology": "show how this node's GPUs are connected, as `nvidia-smi topo -m` does",
}


# The agent's folder where it is a service.
SERVICE_FOLDER = Path("/var/lib/tessera-agent")


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The settings of `agents run`."""

    route: PortalRoute
    # The agent's folder.
    var: Path
    name: str
    runtime: RuntimeKind
    policy: Path | None
    join_token: str
    # The state file of a simulated node; None for the real driver.
    simulated_driver: Path | None
    stop_jobs_on_exit: bool = False
    # The MPS control program; empty for NVIDIA's, or for that of a simulated node.
    mps_control: str = ""
    # Between two samples of the sensors; 0 turns telemetry off.
    telemetry_seconds: float = 10.0
    # Where the page for Prometheus is served; None for no page.
    metrics: Address | None = None
    # Where jobs write; None for the agent's folder.
    disk_folder: Path | None = None
    disk_reserve: DiskReserve = DEFAULT_RESERVE
    # The node's for other nodes; empty for that of its way to the portal.
    address: str = ""
    # Of the log: json, text, or empty for text on a terminal and JSON elsewhere.
    log_format: str = ""


def parser() -> argparse.ArgumentParser:
    """The arguments of `tessera-agent`. Secrets come by file or environment only."""
    # As it was called: from a checkout it has no command of its own.
    is_installed = Path(sys.argv[0]).name == "tessera-agent"
    program = "tessera-agent" if is_installed else "python -m agents"
    parser = argparse.ArgumentParser(prog=program, description="The Tessera node agent.")
    parser.add_argument("--version", action="version", version=f"tessera-agent {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True)
    _add_run(
        commands.add_parser("run", help="run the agent of this node; enrols it first if needed")
    )
    _add_service(commands)
    for name, description in READING_COMMANDS.items():
        reading = commands.add_parser(name, help=description)
        reading.add_argument("--json", action="store_true", help="JSON by docs/schemas")
        reading.add_argument("--sysfs", type=Path, help="else TESSERA_SYSFS, else /sys")
        if name == "inventory":
            _add_place(reading)
            _add_disk(reading)
            _add_policy(reading)
    boards = commands.add_parser("boards", help="list the boards that this version knows")
    boards.add_argument("--json", action="store_true", help="for programs")
    _add_doctor(
        commands.add_parser("doctor", help="check this machine for problems; changes nothing")
    )
    _add_drill(
        commands.add_parser("drill", help="kill the agent at any point and check that it recovers")
    )
    add_arguments(
        commands.add_parser("simulate", help="create or show a simulated node, or inject a fault")
    )
    return parser


def _add_run(run: argparse.ArgumentParser) -> None:
    _add_route(run)
    run.add_argument("--name", default=_variables().node_name or os.uname().nodename)
    _add_place(run)
    _add_disk(run)
    _add_policy(run)
    _add_address(run)
    run.add_argument(
        "--join-token-file",
        type=Path,
        help="else TESSERA_JOIN_TOKEN, or the file that TESSERA_JOIN_TOKEN_FILE names",
    )
    run.add_argument(
        "--telemetry-seconds",
        type=sample_seconds,
        default=_variables().agent_telemetry_seconds,
        help="interval of sensor samples, 1 to 3600; 0 turns them off (default 10)",
    )
    run.add_argument(
        "--metrics",
        type=address,
        default=_variables().metrics or None,
        metavar="HOST:PORT",
        help="serve Prometheus metrics, such as at 127.0.0.1:9400 (default: off)",
    )
    run.add_argument("--stop-jobs-on-exit", action="store_true", help="for demonstrations")


def _add_route(command: argparse.ArgumentParser) -> None:
    """The way to the portal."""
    command.add_argument(
        "--portal",
        action="append",
        metavar="URL",
        help="its URL; again for each further address of the same portal (else "
        "TESSERA_PORTAL_URL, with commas)",
    )
    command.add_argument(
        "--ca-file",
        type=Path,
        default=_variables().ca_file or None,
        help="trust these certificate authorities (PEM) instead of the system's",
    )
    command.add_argument(
        "--proxy",
        metavar="URL",
        help="call the portal through this HTTP proxy (else TESSERA_PROXY; HTTPS_PROXY and the "
        "like are ignored)",
    )
    command.add_argument(
        "--allow-plain-http",
        action="store_true",
        default=_variables().agent_allow_plain_http,
        help="call a portal that is not on this machine without TLS",
    )


def _add_service(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Installing and removing the service. Installing takes the arguments of `run`."""
    install = commands.add_parser(
        "install-service", help="install the agent as a service of systemd and start it; as root"
    )
    _add_run(install)
    install.set_defaults(var=Path(_variables().agent_var or SERVICE_FOLDER))
    install.add_argument("--no-start", action="store_true", help="enable it for the next boot only")
    install.add_argument("--print", action="store_true", help="print the unit, and change nothing")
    uninstall = commands.add_parser(
        "uninstall-service", help="stop and remove the service; what runs on the node goes on"
    )
    for command in (install, uninstall):
        command.add_argument(
            "--dry-run", action="store_true", help="show what would be done, and change nothing"
        )
        command.add_argument(
            "--root",
            type=Path,
            default=Path("/"),
            help="a folder with the files of another machine, such as its image (default: /)",
        )


def _add_policy(command: argparse.ArgumentParser) -> None:
    command.add_argument("--policy", type=Path, help="the root-owned policy file of this node")


def _add_address(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--address",
        type=node_address,
        default=_variables().agent_address,
        metavar="IP",
        help="this node's address for other nodes (default: that of its way to the portal)",
    )


def node_address(text: str) -> str:
    """Raises ArgumentTypeError."""
    try:
        return str(ip_address(text)) if text else ""
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no IP address of this machine") from error


def _add_place(command: argparse.ArgumentParser) -> None:
    """The agent's folder and its runtime."""
    folder = _variables().agent_var or "var/agent"
    command.add_argument("--var", type=Path, default=folder, help="the agent's folder")
    command.add_argument(
        "--runtime",
        type=RuntimeKind,
        choices=list(RuntimeKind),
        default=_variables().runtime,
    )


def _add_disk(command: argparse.ArgumentParser) -> None:
    """How much of the disk jobs may use."""
    command.add_argument(
        "--disk-folder",
        type=Path,
        default=_variables().agent_disk_folder or None,
        help="where jobs write (default: --var)",
    )
    command.add_argument(
        "--disk-reserve",
        type=parse_reserve,
        default=_variables().agent_disk_reserve or DEFAULT_RESERVE,
        metavar="20%|200GiB",
        help="kept free for images, logs and the system (default: 20%%, at least 10GiB)",
    )


def job_disk(options: argparse.Namespace) -> JobDisk:
    """The disk that an agent with these arguments reports."""
    return JobDisk(options.disk_folder or options.var, options.disk_reserve)


def _add_doctor(doctor: argparse.ArgumentParser) -> None:
    doctor.add_argument("--json", action="store_true", help="for programs")
    doctor.add_argument(
        "--smoke",
        action="store_true",
        help="also run one container for each way to pass a GPU, as a job would be run",
    )
    doctor.add_argument(
        "--smoke-image", default=SMOKE_IMAGE, help="their image, which needs sh and glibc"
    )
    doctor.add_argument(
        "--smoke-bandwidth",
        action="store_true",
        help="with --smoke: each also copies memory, which jobs on that GPU notice",
    )
    _add_policy(doctor)
    _add_address(doctor)
    _add_place(doctor)
    _add_route(doctor)


def _add_drill(drill: argparse.ArgumentParser) -> None:
    drill.add_argument("--every", type=int, default=1, help="only every Nth kill point (1: all)")
    drill.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    drill.add_argument(
        "--random",
        type=int,
        default=0,
        metavar="N",
        help="take N random steps instead of the script",
    )
    drill.add_argument("--seed", type=int, default=1, help="seed of the random steps (1)")
    drill.add_argument("--json", action="store_true", help="print one JSON object")
    drill.add_argument(
        "--runtime", type=RuntimeKind, choices=list(RuntimeKind), default=RuntimeKind.PROCESS
    )
    drill.add_argument(
        "--engine", default="", metavar="URL", help="with docker: its URL (default: DOCKER_HOST)"
    )
    drill.add_argument("--image", default="", help="with docker: an image with sh and sleep")


def settings_from(options: argparse.Namespace) -> AgentSettings:
    """Raises SystemExit with a sentence if an address or a token is missing or cannot be used."""
    route = portal_route(options)
    if not route.addresses:
        raise SystemExit("Set the portal's address: --portal URL or TESSERA_PORTAL_URL.")
    token = _required_variables().join_token
    if options.join_token_file:
        try:
            token = options.join_token_file.read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            raise SystemExit(f"The join token cannot be read: {error}") from error
    return AgentSettings(
        route=route,
        var=options.var,
        name=options.name,
        runtime=RuntimeKind(options.runtime),
        policy=options.policy,
        join_token=token,
        simulated_driver=simulated_driver(),
        stop_jobs_on_exit=options.stop_jobs_on_exit,
        mps_control=_variables().mps_control,
        telemetry_seconds=options.telemetry_seconds,
        metrics=options.metrics,
        disk_folder=options.disk_folder,
        disk_reserve=options.disk_reserve,
        address=options.address,
        log_format=_variables().log_format,
    )


def portal_route(options: argparse.Namespace) -> PortalRoute:
    """The way to the portal by arguments and environment; without an address if none is set. Raises
    SystemExit with a sentence about what cannot be used."""
    variables = _required_variables()
    urls = options.portal or re.split(r"[,\s]+", variables.portal_url)
    proxy = options.proxy or variables.proxy
    if options.proxy and has_password(options.proxy):
        raise SystemExit("A password on a command line is public: set TESSERA_PROXY instead.")
    addresses = tuple(dict.fromkeys(url.rstrip("/") for url in urls if url))
    problems = [proxy_problem(proxy)] + [
        address_problem(url, allow_plain_http=options.allow_plain_http, is_proxied=bool(proxy))
        for url in addresses
    ]
    for problem in filter(None, problems):
        raise SystemExit(problem)
    if options.ca_file is not None:
        try:
            ssl.create_default_context(cafile=str(options.ca_file))
        except OSError as error:
            why = f"{options.ca_file} is not a file of certificates: {error.strerror or error}"
            raise SystemExit(f"{why}. Set --ca-file or TESSERA_CA_FILE to a PEM file.") from error
    return PortalRoute(addresses, options.ca_file, proxy)


def run_arguments(settings: AgentSettings, *, allow_plain_http: bool) -> list[str]:
    """The arguments of `run` for these settings, but for the token and the proxy, which may have
    secrets; paths are absolute."""
    found = [word for address in settings.route.addresses for word in ("--portal", address)]
    if settings.route.ca_file is not None:
        found += ["--ca-file", str(settings.route.ca_file.absolute())]
    found += ["--name", settings.name]
    found += ["--var", str(settings.var.absolute()), "--runtime", str(settings.runtime)]
    if settings.policy is not None:
        found += ["--policy", str(settings.policy.absolute())]
    if settings.disk_folder is not None:
        found += ["--disk-folder", str(settings.disk_folder.absolute())]
    if settings.disk_reserve != DEFAULT_RESERVE:
        found += ["--disk-reserve", str(settings.disk_reserve)]
    if settings.address:
        found += ["--address", settings.address]
    found += ["--telemetry-seconds", f"{settings.telemetry_seconds:g}"]
    if settings.metrics is not None:
        found += ["--metrics", str(settings.metrics)]
    return [*found, *(["--allow-plain-http"] if allow_plain_http else [])]


def simulated_driver() -> Path | None:
    """The state file that TESSERA_SIMULATED_DRIVER names; None for the real driver."""
    path = _variables().simulated_driver
    return Path(path) if path else None


def _variables() -> AgentVariables:
    """Those of the environment, with the default of each that is wrong."""
    return read_settings(AgentVariables, os.environ).values


def _required_variables() -> AgentVariables:
    """Raises SystemExit with a sentence for each that is wrong."""
    try:
        return read_settings(AgentVariables, os.environ).required()
    except SettingsError as error:
        raise SystemExit(str(error)) from error
