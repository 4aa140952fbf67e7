"""How the portal is reached: trusted certificate authorities, a proxy, and failures in words."""

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from portal.cli.config import PortalAccess
from portal.cli.exit_codes import CommandFailed, ExitCode

WITH_FILE = "tessera login URL --ca-file FILE"


def http_options(access: PortalAccess) -> dict[str, Any]:
    """Arguments of an httpx client. Without a proxy of Tessera's own, those of the environment
    (HTTPS_PROXY) are used, as by other commands of a shell. Raises CommandFailed."""
    context = _trust_context(access.ca_file)
    if not access.proxy:
        return {"verify": context}
    if not _is_server(access.proxy):
        sentence = "The proxy is not a URL such as http://proxy.example:3128"
        raise CommandFailed(
            "proxy_invalid", sentence, "tessera login URL --proxy URL", ExitCode.USAGE
        )
    is_tls = urlsplit(access.proxy).scheme == "https"
    proxy = httpx.Proxy(access.proxy, ssl_context=context if is_tls else None)
    return {"verify": context, "proxy": proxy}


def websocket_options(access: PortalAccess) -> dict[str, Any]:
    """The same for `websockets.connect`. Raises CommandFailed."""
    calls = http_options(access)
    # True: those of the environment.
    options: dict[str, Any] = {"proxy": access.proxy or True}
    if urlsplit(access.url).scheme == "https":
        options["ssl"] = calls["verify"]
    if urlsplit(access.proxy).scheme == "https":
        options["proxy_ssl"] = calls["verify"]
    return options


def lasting_failure(url: str, error: httpx.TransportError) -> CommandFailed | None:
    """What trying again cannot mend; None for any other failure."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            sentence = f"The certificate of {url} is not trusted: {cause.verify_message}"
            return CommandFailed("certificate_untrusted", sentence, WITH_FILE)
    if isinstance(error, httpx.ProxyError) and str(error).startswith("4"):
        sentence = f"The proxy refuses to connect to {url}: {error}"
        proxy = "the same command with TESSERA_PROXY=http://USER:PASSWORD@HOST:PORT"
        return CommandFailed("proxy_refused", sentence, proxy, ExitCode.DENIED)
    return None


def _trust_context(ca_file: str) -> ssl.SSLContext:
    """Trusts the authorities of the file alone; without one those of the system, or on a system
    that has none those of the package certifi, which httpx brings."""
    if not ca_file:
        has_own = _has_system_authorities()
        return ssl.create_default_context() if has_own else httpx.create_ssl_context()
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        sentence = f"{ca_file} is not a file of certificates: {error.strerror or error}"
        raise CommandFailed("ca_file_invalid", sentence, WITH_FILE, ExitCode.USAGE) from error


def _has_system_authorities() -> bool:
    paths = ssl.get_default_verify_paths()
    return bool(paths.cafile) or bool(paths.capath and any(Path(paths.capath).iterdir()))


def _is_server(proxy: str) -> bool:
    try:
        parts = urlsplit(proxy)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
