"""OpenSSH's clients for a server that is told which key to take, without a configuration."""

import subprocess
from pathlib import Path

from agents.contract.ssh import KEY_KIND, SshGreeting

NAME = "replica"


def a_key(folder: Path) -> str:
    """The public key in base64 of a new key in this folder."""
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
    return (folder / "key.pub").read_text().split()[1]


def know(folder: Path, greeting: SshGreeting) -> None:
    (folder / "known_hosts").write_text(f"{NAME} {KEY_KIND} {greeting.host_key}\n")


def client_options(folder: Path, port: int, login: str) -> list[str]:
    """For ssh, scp and sftp: to a port of this machine."""
    options = {
        "User": login,
        "Port": str(port),
        "HostName": "127.0.0.1",
        "HostKeyAlias": NAME,
        "IdentityFile": str(folder / "key"),
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "UserKnownHostsFile": str(folder / "known_hosts"),
        "StrictHostKeyChecking": "yes",
        "BatchMode": "yes",
    }
    words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    return ["-F", "none", *words]
