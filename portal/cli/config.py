"""Where the portal is and who calls: the environment first, then a file of the owner alone."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from portal.cli.exit_codes import CommandFailed, ExitCode

LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))


@dataclass(frozen=True)
class PortalAccess:
    url: str = ""
    token: str = ""
    project: str = ""


def config_path(env: Mapping[str, str]) -> Path:
    if named := env.get("TESSERA_CONFIG"):
        return Path(named)
    base = env.get("XDG_CONFIG_HOME") or str(Path(env.get("HOME") or Path.home()) / ".config")
    return Path(base) / "tessera" / "config.yaml"


def load_access(env: Mapping[str, str]) -> PortalAccess:
    """What to call with. Raises Failed(not_signed_in).

    A token goes only to the address that it was given for: another TESSERA_URL needs its own.
    """
    kept = stored_access(env)
    url = parse_url(env["TESSERA_URL"]) if env.get("TESSERA_URL") else kept.url
    token = env.get("TESSERA_TOKEN", "").strip() or (kept.token if url == kept.url else "")
    project = env.get("TESSERA_PROJECT", "").strip() or kept.project
    if not url or not token:
        missing = "no address" if not url else "no token for " + url
        raise CommandFailed(
            "not_signed_in", f"There is {missing}", "tessera login URL", ExitCode.DENIED
        )
    return PortalAccess(url, token, project)


def stored_access(env: Mapping[str, str]) -> PortalAccess:
    """What the file says; nothing where there is none. Raises Failed(config_invalid)."""
    path = config_path(env)
    try:
        data = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        return PortalAccess()
    except (OSError, ValueError, yaml.YAMLError) as wrong:
        raise CommandFailed(
            "config_invalid", f"{path} cannot be read: {wrong}", f"rm {path}; tessera login URL"
        ) from wrong
    if not isinstance(data, Mapping):
        raise CommandFailed(
            "config_invalid", f"{path} is not a configuration", f"rm {path}; tessera login URL"
        )
    return PortalAccess(*(str(data.get(name) or "") for name in ("url", "token", "project")))


def store_access(env: Mapping[str, str], access: PortalAccess) -> Path:
    """Write the file, mode 0600 from its first byte. A crash leaves the old one."""
    path = config_path(env)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    text = yaml.safe_dump({name: value for name, value in vars(access).items() if value})
    handle, written = tempfile.mkstemp(dir=path.parent, prefix=".config-")
    try:
        os.fchmod(handle, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(written).replace(path)
    except BaseException:
        Path(written).unlink(missing_ok=True)
        raise
    return path


def delete_access(env: Mapping[str, str]) -> bool:
    """Remove the file; whether there was one."""
    path = config_path(env)
    was_there = path.exists()
    path.unlink(missing_ok=True)
    return was_there


def parse_url(text: str) -> str:
    """ "gpu.example.org/" -> "https://gpu.example.org". Raises Failed(url_invalid)."""
    url = text.strip()
    url = url if "://" in url else f"https://{url}"
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_right = False
    if not is_right or parts.username or parts.query or parts.fragment:
        sentence = f"{text!r} is not the address of a portal"
        raise CommandFailed(
            "url_invalid", sentence, "tessera login https://gpu.example.org", ExitCode.USAGE
        )
    return url.rstrip("/").removesuffix("/api/v1")


def is_unencrypted(url: str) -> bool:
    """Whether a token sent there can be read on the way."""
    parts = urlsplit(url)
    return parts.scheme == "http" and (parts.hostname or "") not in LOOPBACK
