"""`agents install-service`: installs the agent as a service of systemd, and starts it.

Everything is checked before anything is written, and a second run changes only what differs. The
exit status is 1 with one sentence if the machine or the arguments do not allow it.
"""

import argparse
import os
import shlex
import stat
import sys
from pathlib import Path

import agents
from agents.admission.policy import PolicyError, read_policy
from agents.contract.documents import RuntimeKind
from agents.host.private_files import exposure, path_access
from agents.runtime.base import RuntimeFailure
from agents.runtime.docker_engine import connect_engine
from agents.service.installation import InstallationFailed, ServiceFile, ServiceInstallation
from agents.service.unit import NAME, UnitRefused, environment_text, unit_text
from agents.settings import AgentSettings, run_arguments, settings_from
from agents.state.identity import AgentIdentity

ENGINE_SECONDS = 10
TOKEN = "TESSERA_JOIN_TOKEN"  # noqa: S105 - the name of a variable
PROXY = "TESSERA_PROXY"
# Variables that the agent and its libraries read, and that have no argument.
KEPT_VARIABLES = (
    *("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"),
    *("TESSERA_MPS_CONTROL", "TESSERA_SIMULATED_DRIVER", "TESSERA_SYSFS"),
)
WRITABLE_BY_OTHERS = 0o022


class ServiceRefused(Exception):
    """Why the service is not installed, and what to do."""


def main(options: argparse.Namespace) -> int:
    """Installs, or prints what it would install."""
    try:
        settings = settings_from(options)
        service = ServiceInstallation(options.root.absolute())
        arguments = run_arguments(settings, allow_plain_http=options.allow_plain_http)
        command = [sys.executable, "-m", "agents", "run", *arguments]
        unit = unit_text(command, str(_code_folder()), str(service.environment_path()))
        if options.print:
            sys.stdout.write(unit)
            return 0
        files = service.files(unit, environment_text(_variables(settings, service)))
        check_arguments(settings, options)
        check_machine(settings, service, command)
        if options.dry_run:
            _show(files, service, start=not options.no_start)
            return 0
        done = service.install(files, start=not options.no_start)
    except (ServiceRefused, UnitRefused, InstallationFailed) as refused:
        sys.stderr.write(f"Not installed: {refused}\n")
        return 1
    sys.stdout.write("".join(f"{line}\n" for line in done))
    if service.is_live:
        sys.stdout.write(f"Its state: systemctl status {NAME}; its log: journalctl -fu {NAME}\n")
    return 0


def check_arguments(settings: AgentSettings, options: argparse.Namespace) -> None:
    """Raises ServiceRefused if `agents run` would refuse them."""
    if options.stop_jobs_on_exit:
        raise ServiceRefused("--stop-jobs-on-exit is for demonstrations: a service keeps jobs")
    try:
        policy = read_policy(settings.policy)
    except PolicyError as error:
        raise ServiceRefused(str(error)) from error
    if settings.runtime is RuntimeKind.PROCESS and not policy.allow_process_runtime:
        raise ServiceRefused(f"{settings.policy} forbids --runtime process")
    if settings.disk_folder is not None and not settings.disk_folder.is_dir():
        raise ServiceRefused(f"--disk-folder {settings.disk_folder} is not a folder: create it")


def check_machine(
    settings: AgentSettings, service: ServiceInstallation, command: list[str]
) -> None:
    """Raises ServiceRefused if the service could not run here, or would not be safe."""
    words = shlex.join(command)
    if not service.has_systemd():
        sentence = (
            "systemd does not run this machine (there is no /run/systemd/system). Let your own "
            f"supervisor run this as root, and end it by SIGTERM to its main process only: {words}"
        )
        raise ServiceRefused(sentence)
    if service.is_live and os.geteuid() != 0:
        raise ServiceRefused("it needs root: run it with sudo, with the token in --join-token-file")
    if os.geteuid() == 0:
        for folder in (_code_folder(), Path(agents.__path__[0]), Path(sys.prefix)):
            _require_roots(folder)
    var = _agent_folder(settings, service)
    if var.exists() and (found := exposure(str(var), path_access(var), os.geteuid())):
        raise ServiceRefused(f"{found.why}: {found.mend}")
    if service.is_live and settings.runtime is RuntimeKind.DOCKER:
        try:
            connect_engine(ENGINE_SECONDS).client.close()
        except RuntimeFailure as failure:
            raise ServiceRefused(failure.sentence) from failure


def _require_roots(folder: Path) -> None:
    """Raises ServiceRefused if users other than root can change the code of the service, or put
    other code in its place."""
    folder = folder.resolve()
    for at in (folder, *folder.parents):
        access = path_access(at)
        # In a sticky folder above it, such as /tmp, others cannot move what is not theirs.
        is_sticky = at != folder and access.mode & stat.S_ISVTX
        if access.owner == 0 and (is_sticky or not access.mode & WRITABLE_BY_OTHERS):
            continue
        sentence = (
            f"users other than root can change {at}, and the service would run code from there as "
            "root: install from a checkout that belongs to root, such as /opt/tessera"
        )
        raise ServiceRefused(sentence)


def _code_folder() -> Path:
    """The folder that `python -m agents` is run in: the checkout, or that of the wheel."""
    return Path(agents.__path__[0]).parent


def _agent_folder(settings: AgentSettings, service: ServiceInstallation) -> Path:
    """Where it is now: below another root, that of the other machine."""
    return service.root / settings.var.absolute().relative_to("/")


def _variables(settings: AgentSettings, service: ServiceInstallation) -> dict[str, str]:
    """Of the environment file. A token is kept until the node has enrolled. Raises
    ServiceRefused."""
    found = {name: os.environ[name] for name in KEPT_VARIABLES if os.environ.get(name)}
    if settings.route.proxy:
        # It may have a password, and a unit is public.
        found[PROXY] = settings.route.proxy
    if AgentIdentity.is_enrolled(_agent_folder(settings, service)):
        return found
    token = settings.join_token or service.stored_variable(TOKEN)
    if not token:
        sentence = f"this node is not enrolled: set {TOKEN} to a join token, or --join-token-file"
        raise ServiceRefused(sentence)
    return found | {TOKEN: token}


def _show(files: tuple[ServiceFile, ...], service: ServiceInstallation, *, start: bool) -> None:
    """What `install` would do; never the environment, which has the token."""
    stale = [file for file in files if not file.is_current()]
    for file in files:
        sys.stdout.write(f"{'write' if file in stale else 'keep ':<10} {file.path}\n")
    commands = service.commands(is_changed=bool(stale), start=start) if service.is_live else []
    for words in commands:
        sys.stdout.write(f"{'run':<10} systemctl {' '.join(words)}\n")
    sys.stdout.write(f"\n{files[-1].text}")
