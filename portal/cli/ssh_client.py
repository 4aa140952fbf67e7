"""How OpenSSH's own clients reach a replica: their key, their options, and the servers they know.

The key opens nothing by itself: a server that takes it is only started in a stream of the portal,
for whoever has the user's token.
"""

import fcntl
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agents.contract.ssh import KEY_KIND, SshGreeting
from portal.cli.config import config_path
from portal.cli.exit_codes import CommandFailed

HOST_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
# Each server has another key. Those of the connections that are being made at once are enough.
KNOWN_HOSTS = 64


@dataclass(frozen=True)
class SshFolder:
    """Nobody else reads it."""

    path: Path

    @property
    def key(self) -> Path:
        return self.path / "key"

    @property
    def known_hosts(self) -> Path:
        return self.path / "known_hosts"

    def make_key(self) -> None:
        """Where there is none. Raises CommandFailed."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.key.exists():
            words = [program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", "tessera"]
            subprocess.run([*words, "-f", self.key], check=True, stdin=subprocess.DEVNULL)  # noqa: S603 - no word is a user's

    def client_key(self) -> str:
        """The public key in base64. Raises CommandFailed."""
        try:
            kind, key = self.key.with_suffix(".pub").read_text("ascii").split()[:2]
        except (OSError, ValueError):
            kind, key = "", ""
        if kind != KEY_KIND:
            sentence = f"There is no key in {self.path}"
            raise CommandFailed("ssh_key", sentence, "tessera ssh --config, which makes one")
        return key

    def know(self, name: str, greeting: SshGreeting) -> None:
        """Have ssh take the server with this key for this name, as it takes those before it: each
        has ended, or is another connection of the same client."""
        line = f"{known_name(name)} {KEY_KIND} {greeting.host_key}"
        with (self.path / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lines = self.known_hosts.read_text().splitlines() if self.known_hosts.exists() else []
            part = self.path / "known_hosts.part"
            part.write_text("\n".join([*lines[1 - KNOWN_HOSTS :], line]) + "\n")
            part.replace(self.known_hosts)


def keys_folder(env: Mapping[str, str]) -> SshFolder:
    """For what is not called by `tessera` itself."""
    return SshFolder(config_path(env).parent / "ssh")


def host_name(job: str, rank: int) -> str:
    """By which ssh knows a replica: J-12, and J-12.3 for rank 3. Raises CommandFailed for what ssh
    would take as an option, or as a pattern of hosts."""
    name = f"{job}.{rank}" if rank else job
    if not re.fullmatch(HOST_NAME, name):
        raise CommandFailed("ssh_name", f"{name} is no name of a job for ssh", "tessera ps")
    return name


def known_name(name: str) -> str:
    """Of its server, as ssh looks for it."""
    return name.lower()


def ssh_options(folder: SshFolder, job: str, rank: int, login: str) -> list[tuple[str, str]]:
    """As `ssh_config` has them. No key, agent or display of the user's own is offered to the job,
    whose image may have any server."""
    name = host_name(job, rank)
    proxy = [*own_command(), "ssh-proxy", job, "--rank", str(rank), "--keys", str(folder.path)]
    return [
        ("ProxyCommand", shlex.join(proxy).replace("%", "%%")),
        ("User", login),
        ("HostKeyAlias", known_name(name)),
        ("IdentityFile", quoted(folder.key)),
        ("IdentitiesOnly", "yes"),
        ("IdentityAgent", "none"),
        ("PreferredAuthentications", "publickey"),
        ("UserKnownHostsFile", quoted(folder.known_hosts)),
        ("GlobalKnownHostsFile", "/dev/null"),
        ("StrictHostKeyChecking", "yes"),
        ("HostKeyAlgorithms", KEY_KIND),
        ("UpdateHostKeys", "no"),
        ("CheckHostIP", "no"),
        ("ForwardAgent", "no"),
        ("ForwardX11", "no"),
    ]


def ssh_command(options: list[tuple[str, str]], name: str, arguments: list[str]) -> list[str]:
    """Raises CommandFailed."""
    words = [word for key, value in options for word in ("-o", f"{key}={value}")]
    return [program("ssh"), *words, name, *arguments]


def config_block(options: list[tuple[str, str]], name: str) -> str:
    """For ~/.ssh/config, or a file of its own for `scp -F`."""
    return "\n".join([f"Host {name}", *(f"    {key} {value}" for key, value in options)])


def own_command() -> list[str]:
    """The words that run `tessera`, from whatever folder: editors call it without the user's
    PATH."""
    own = Path(sys.argv[0])
    if own.name == "tessera" and own.exists():
        return [str(own.absolute())]
    return [sys.executable, "-m", "portal.cli"]


def program(name: str) -> str:
    """Its path. Raises CommandFailed."""
    if path := shutil.which(name):
        return path
    sentence = f"{name} of OpenSSH is not installed on this machine"
    raise CommandFailed("ssh_missing", sentence, "tessera shell")


def quoted(path: Path) -> str:
    """As ssh_config has a path, whose percent signs are tokens."""
    return '"' + str(path).replace("%", "%%") + '"'
