"""`tessera ssh`: its command lines and configuration, as OpenSSH itself reads them."""

import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from agents.contract.ssh import SshGreeting
from portal.cli.commands.ssh import _own_options
from portal.cli.exit_codes import CommandFailed
from portal.cli.ssh_client import (
    KNOWN_HOSTS,
    SshFolder,
    config_block,
    host_name,
    keys_folder,
    own_command,
    ssh_command,
    ssh_options,
)

KEY = "A" * 68


def needs_ssh():
    if shutil.which("ssh") is None or shutil.which("ssh-keygen") is None:
        pytest.skip("OpenSSH's clients are not installed")


def as_ssh_reads(words: list[str]) -> dict[str, str]:
    done = subprocess.run(["ssh", "-G", *words], capture_output=True, text=True, check=True)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


@pytest.fixture
def folder(tmp_path):
    return SshFolder(tmp_path / "50% of a place")


def test_ssh_takes_the_options_and_the_configuration_alike(folder, tmp_path):
    needs_ssh()
    options = ssh_options(folder, "J-12", 3, "olga")
    config = tmp_path / "config"
    config.write_text(config_block(options, "J-12.3"))
    command = ssh_command(options, "J-12.3", ["-L", "8080:localhost:80", "nvidia-smi", "-l"])
    assert command[-5:] == ["J-12.3", "-L", "8080:localhost:80", "nvidia-smi", "-l"]
    read = [
        as_ssh_reads(["-F", "none", *command[1:-4]]),
        as_ssh_reads(["-F", str(config), "J-12.3"]),
    ]
    assert read[0] == read[1]
    seen = read[0]
    assert (seen["user"], seen["hostkeyalias"]) == ("olga", "j-12.3")
    assert seen["stricthostkeychecking"] in ("true", "yes")
    assert (seen["identitiesonly"], seen["identityagent"]) == ("yes", "none")
    assert (seen["forwardagent"], seen["forwardx11"]) == ("no", "no")
    assert "ssh-proxy J-12 --rank 3 --keys" in seen["proxycommand"]


def test_ssh_finds_the_key_and_the_known_server_below_any_path(folder):
    """A percent sign is a token of ssh, and a blank its end of a word."""
    needs_ssh()
    folder.make_key()
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.key.stat().st_mode) == 0o600
    first = folder.client_key()
    folder.make_key()
    assert folder.client_key() == first
    assert re.fullmatch(r"[A-Za-z0-9+/]{68}", first)
    words = ssh_command(ssh_options(folder, "J-12", 0, "olga"), "J-12", ["true"])
    words = [
        word if not word.startswith("ProxyCommand=") else "ProxyCommand=false" for word in words
    ]
    done = subprocess.run([*words[:1], "-v", *words[1:]], capture_output=True, text=True)
    assert f"identity file {folder.key} type" in done.stderr


def test_the_servers_of_the_last_connections_are_known(folder):
    folder.path.mkdir()
    for number in range(KNOWN_HOSTS + 5):
        folder.know("J-12", SshGreeting(login="olga", host_key=f"{number:068d}"))
    lines = folder.known_hosts.read_text().splitlines()
    assert len(lines) == KNOWN_HOSTS
    assert lines[-1] == f"j-12 ssh-ed25519 {KNOWN_HOSTS + 4:068d}"


def test_a_folder_without_a_key_says_what_to_do(folder):
    with pytest.raises(CommandFailed) as failed:
        folder.client_key()
    assert failed.value.code == "ssh_key"


def test_only_options_behind_the_job_are_ours():
    assert _own_options(0, False, ["--rank", "3", "python", "--rank", "7", "--config"]) == (
        3,
        False,
        ["python", "--rank", "7", "--config"],
    )
    assert _own_options(2, False, ["--config"]) == (2, True, [])
    for words in (["--rank"], ["-r", "x"], ["--rank", "-1"]):
        with pytest.raises(CommandFailed):
            _own_options(0, False, words)


def test_names_and_places():
    assert (host_name("J-12", 0), host_name("J-12", 3)) == ("J-12", "J-12.3")
    for name in ("-oKnownHostsCommand=/bin/sh", "*", "J-12 *", ""):
        with pytest.raises(CommandFailed):
            host_name(name, 0)
    assert keys_folder({"TESSERA_CONFIG": "/x/config.yaml"}).path == Path("/x/ssh")
    assert Path(own_command()[0]).is_absolute()
