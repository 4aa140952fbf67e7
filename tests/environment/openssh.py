"""OpenSSH's server and its clients for tests. The server is unpacked and not installed: its package
would start one on port 22, for everybody."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.environment import debian

# With the library that Debian's server needs and other packages do not.
PACKAGES = ("openssh-server", "openssh-sftp-server", "libwrap0")
CLIENTS = ("ssh", "scp", "ssh-keygen")
# Of the place itself: that of another one does not fit.
C_LIBRARY = ("libc.so", "ld-linux")


# Finds its libraries wherever it was unpacked.
WRAPPER = """#!/bin/sh
export LD_LIBRARY_PATH="${0%/*}/../brought"
exec "${0%/*}/../sbin/sshd" "$@"
"""


@dataclass(frozen=True, slots=True)
class UnpackedServer:
    """`usr/` of its packages; it may be copied."""

    usr: Path

    @property
    def variables(self) -> dict[str, str]:
        """By which a job finds it, as one that brought its own would."""
        return {"PATH": f"{self.usr}/bin:{os.environ.get('PATH', '/usr/bin:/bin')}"}

    def bring_libraries(self) -> None:
        """Beside it, for a place that has none of them but the C library."""
        env = os.environ | {"LD_LIBRARY_PATH": str(self.usr / "brought")}
        command = ["ldd", str(self.usr / "sbin/sshd")]
        told = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        for library in re.findall(r"=> (/\S+)", told.stdout):
            is_own = library.startswith(str(self.usr))
            if not is_own and not Path(library).name.startswith(C_LIBRARY):
                shutil.copy(library, self.usr / "brought")


def as_installed(folder: Path) -> tuple[str, ...]:
    """The words that run a program of root on a machine as the server's package leaves it: with a
    user for it, and a place for its folder. Skips the test where they cannot be had."""
    if os.geteuid():
        return ()
    if not debian.may_start_containers():
        pytest.skip("root's sshd needs a user that this machine lacks (no CAP_SYS_ADMIN)")
    passwd = folder / "passwd"
    passwd.write_text("root:x:0:0::/root:/bin/sh\nsshd:x:65533:65534::/run/sshd:/bin/false\n")
    mounts = f"mount -t tmpfs none /run && mount --bind {shlex.quote(str(passwd))} /etc/passwd"
    return ("/usr/bin/unshare", "--mount", "/bin/sh", "-c", f'{mounts} && exec "$0" "$@"')


def unpack_server(folder: Path) -> UnpackedServer:
    """Skips the test where there are no clients, or no packages to be had."""
    for name in (*CLIENTS, "dpkg-deb", "apt-get"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    if trouble := debian.download(PACKAGES, folder):
        pytest.skip(f"OpenSSH's server cannot be had: {trouble[-300:]}")
    root = folder / "root"
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    made = UnpackedServer(root / "usr")
    for name in ("bin", "brought"):
        (made.usr / name).mkdir(exist_ok=True)
    for library in made.usr.glob("lib/*-linux-gnu/libwrap.so.*"):
        shutil.copy(library, made.usr / "brought")
    wrapper = made.usr / "bin/sshd"
    wrapper.write_text(WRAPPER)
    wrapper.chmod(0o755)
    return made
