"""The Debian packages that each level of the tests needs, which are missing, and their install."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

POSTGRES_HOME = Path("/usr/lib/postgresql")
FONTS = Path("/usr/share/fonts")
CAP_SYS_ADMIN = 21
# Of some small packages. Tests that need them wait no longer.
DOWNLOAD_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that a level needs, or a path where it is no program, and its Debian package."""

    package: str
    program: str

    def path(self) -> str | None:
        """Its path, or None. Debian keeps PostgreSQL's server off the PATH, and a library is not a
        program."""
        if self.package == "postgresql":
            return max(map(str, POSTGRES_HOME.glob(f"*/bin/{self.program}")), default=None)
        if self.package == "libfaketime":
            return min(map(str, Path("/usr/lib").glob(f"*/faketime/{self.program}")), default=None)
        if self.package == "fonts-noto-cjk":
            return min(map(str, FONTS.glob(f"*/*/{self.program}")), default=None)
        if self.program.startswith("/"):
            return self.program if Path(self.program).exists() else None
        return shutil.which(self.program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


POSTGRES = Tool("postgresql", "initdb")
PGBOUNCER = Tool("pgbouncer", "pgbouncer")
REDIS = Tool("redis-server", "redis-server")
CHROMIUM = Tool("chromium", "chromium")
# Not of a level: the pictures of pages in Chinese need it.
CHINESE_FONT = Tool("fonts-noto-cjk", "NotoSansCJK-Regular.ttc")
SWIFT = Tool("swift-proxy", "swift-proxy-server")
SWIFT_BACKENDS = tuple(
    Tool(f"swift-{kind}", f"swift-{kind}-server") for kind in ("account", "container", "object")
)
DOCKERD = Tool("docker.io", "dockerd")
COMPOSE = Tool("docker-compose", "docker-compose")
NGINX = Tool("nginx-light", "nginx")
# Not of a level: its package starts a server on port 9090. Where it is there, it is used.
PROMTOOL = Tool("prometheus", "promtool")
CADDY = Tool("caddy", "caddy")
IP = Tool("iproute2", "ip")
FAKETIME = Tool("libfaketime", "libfaketimeMT.so.1")
# With Debian's own Python: images in the tests are made of them.
PIP = Tool("python3-pip", "/usr/lib/python3/dist-packages/pip")
DOCKER = (
    DOCKERD,
    PIP,
    Tool("busybox-static", "busybox"),
    IP,
    Tool("iptables", "iptables"),
    # Networks of gangs over two engines; kernels without WireGuard have its program.
    Tool("nftables", "nft"),
    Tool("wireguard-tools", "wg"),
    Tool("wireguard-go", "wireguard-go"),
)
LEVELS: dict[str, tuple[Tool, ...]] = {
    "integration": (Tool("gettext", "msgfmt"),),
    "services": (POSTGRES, PGBOUNCER, REDIS, SWIFT, *SWIFT_BACKENDS),
    # A marker of tests in tests/services/, which needs more than the others there.
    "machines": (POSTGRES, PGBOUNCER, REDIS, NGINX, CADDY, IP, FAKETIME),
    "docker": DOCKER,
    # A marker of tests in tests/docker/, which needs more than the others there.
    "compose": (*DOCKER, COMPOSE, NGINX, POSTGRES, REDIS, Tool("curl", "curl")),
    "browser": (CHROMIUM,),
}
# Their tests make namespaces.
STARTS_CONTAINERS = ("docker", "compose", "machines")
# Not every release of Debian and Ubuntu has a docker-compose or Caddy: without it these tests are
# skipped.
OPTIONAL = ("compose", "machines")
# Those of the above that are markers of tests, not folders.
MARKERS = {"compose", "machines"}


class InstallFailed(RuntimeError):
    """apt-get failed; the message is its own."""


def missing(level: str) -> tuple[Tool, ...]:
    """The level's tools that are not installed."""
    return tuple(tool for tool in LEVELS.get(level, ()) if tool.path() is None)


def why_not(level: str) -> str:
    """Why the level cannot run on this machine; empty if it can."""
    if level in STARTS_CONTAINERS and not may_start_containers():
        return "this process may make no namespaces (no CAP_SYS_ADMIN)"
    absent = ", ".join(tool.package for tool in missing(level))
    return f"not installed: {absent}" if absent else ""


def can_install() -> bool:
    """Installing needs root and apt-get."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def may_start_containers() -> bool:
    """Whether this process holds CAP_SYS_ADMIN, without which no Docker Engine starts."""
    held = next(
        line.split()[1]
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("CapEff:")
    )
    return bool(int(held, 16) >> CAP_SYS_ADMIN & 1)


def install(tools: Iterable[Tool]) -> None:
    """Install the packages, quietly and without services or suggestions. Raises InstallFailed."""
    packages = sorted({tool.package for tool in tools})
    if _apt_get("update") and _apt_get("update"):  # mirrors fail now and then: once more
        raise InstallFailed("apt-get update failed twice: is a Debian mirror reachable?")
    trouble = _apt_get("install", "--yes", "--no-install-recommends", *packages)
    if trouble:
        raise InstallFailed(f"apt-get install {' '.join(packages)} failed:\n{trouble}")


def download(packages: Iterable[str], folder: Path) -> str:
    """Bring the files of packages that are not to be installed into the folder. The last words of
    apt-get if it failed, also where no mirror answers in time, else the empty string."""
    wanted = ("download", *packages)
    try:
        trouble = _apt_get(*wanted, folder=folder, seconds=DOWNLOAD_SECONDS)
        if trouble and can_install():
            # The mirror keeps no file that newer lists do not name.
            _apt_get("update", seconds=DOWNLOAD_SECONDS)
            trouble = _apt_get(*wanted, folder=folder, seconds=DOWNLOAD_SECONDS)
    except subprocess.TimeoutExpired:
        return f"no Debian mirror has answered within {DOWNLOAD_SECONDS:.0f} s"
    return trouble


def _apt_get(*arguments: str, folder: Path | None = None, seconds: float | None = None) -> str:
    """Its last words if it failed, else the empty string. Raises TimeoutExpired."""
    options = ("-qq", "-o", "DPkg::Lock::Timeout=120", "-o", "Acquire::Retries=2")
    done = subprocess.run(
        ["apt-get", *options, *arguments],
        env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    return "" if done.returncode == 0 else (done.stdout + done.stderr)[-2000:]
