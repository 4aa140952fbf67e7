"""The portal's address and the token: from the environment, else from a file with mode 0600."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from portal.cli.environment import secret
from portal.cli.exit_codes import CommandFailed, ExitCode

LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))


@dataclass(frozen=True)
class PortalAccess:
    url: str = ""
    token: str = ""
    project: str = ""
    # A file of certificate authorities (PEM). Empty: those of the system.
    ca_file: str = ""
    # URL of an HTTP proxy. Empty: that of the environment, if it has one.
    proxy: str = field(default="", repr=False)


def config_path(env: Mapping[str, str]) -> Path:
    if named := env.get("TESSERA_CONFIG"):
        return Path(named)
    base = env.get("XDG_CONFIG_HOME") or str(Path(env.get("HOME") or Path.home()) / ".config")
    return Path(base) / "tessera" / "config.yaml"


def load_access(env: Mapping[str, str]) -> PortalAccess:
    """The address, token, default project and the way there. Raises CommandFailed(not_signed_in,
    variables_invalid).

    What is saved for an address is only used with it: another TESSERA_URL needs another token.
    """
    saved = stored_access(env)
    url = parse_url(env["TESSERA_URL"]) if env.get("TESSERA_URL") else saved.url
    token = secret(env, "TESSERA_TOKEN") or (saved.token if url == saved.url else "")
    project = env.get("TESSERA_PROJECT", "").strip() or saved.project
    if not url or not token:
        missing = "No portal address is configured" if not url else f"No token is saved for {url}"
        raise CommandFailed("not_signed_in", missing, "tessera login URL", ExitCode.DENIED)
    own = saved if url == saved.url else PortalAccess()
    return with_environment(env, PortalAccess(url, token, project, own.ca_file, own.proxy))


def with_environment(env: Mapping[str, str], access: PortalAccess) -> PortalAccess:
    """`access` with the authorities and the proxy of the environment, where it has them. Raises
    CommandFailed(variables_invalid)."""
    ca_file = env.get("TESSERA_CA_FILE", "").strip() or access.ca_file
    proxy = secret(env, "TESSERA_PROXY") or access.proxy
    return replace(access, ca_file=ca_file, proxy=proxy)


def stored_access(env: Mapping[str, str]) -> PortalAccess:
    """The saved access; empty if there is no file. Raises CommandFailed(config_invalid)."""
    path = config_path(env)
    try:
        data = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        return PortalAccess()
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise CommandFailed(
            "config_invalid", f"{path} cannot be read: {error}", f"rm {path}; tessera login URL"
        ) from error
    if not isinstance(data, Mapping):
        raise CommandFailed(
            "config_invalid", f"{path} is not a configuration file", f"rm {path}; tessera login URL"
        )
    return PortalAccess(*(str(data.get(saved.name) or "") for saved in fields(PortalAccess)))


def store_access(env: Mapping[str, str], access: PortalAccess) -> Path:
    """Write the file atomically, with mode 0600 from the start."""
    path = config_path(env)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    text = yaml.safe_dump({name: value for name, value in vars(access).items() if value})
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".config-")
    try:
        os.fchmod(handle, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def delete_access(env: Mapping[str, str]) -> bool:
    """Delete the file. Returns whether there was one."""
    path = config_path(env)
    existed = path.exists()
    path.unlink(missing_ok=True)
    return existed


def parse_url(text: str) -> str:
    """ "gpu.example.org/" -> "https://gpu.example.org". Raises CommandFailed(url_invalid)."""
    url = text.strip()
    url = url if "://" in url else f"https://{url}"
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_valid = False
    if not is_valid or parts.username or parts.query or parts.fragment:
        sentence = f"{text!r} is not a valid portal address"
        raise CommandFailed(
            "url_invalid", sentence, "tessera login https://gpu.example.org", ExitCode.USAGE
        )
    return url.rstrip("/").removesuffix("/api/v1")


def is_unencrypted(url: str) -> bool:
    """Whether a token sent there can be read in transit."""
    parts = urlsplit(url)
    return parts.scheme == "http" and (parts.hostname or "") not in LOOPBACK
