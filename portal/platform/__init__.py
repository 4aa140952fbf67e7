"""Every setting of the portal, declared once: TESSERA_<NAME> for each field.

Code takes the values that it needs as arguments; only entry points read `settings.PLATFORM`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from agents.configuration.declaration import Secrecy, settings_of
from agents.configuration.reading import SettingsReading, read_settings
from agents.contract.log_lines import password_of
from portal.platform.files import FileSettings
from portal.platform.limits import LimitSettings
from portal.platform.logs import LogSettings
from portal.platform.process import ProcessSettings
from portal.platform.servers import ServerSettings
from portal.platform.sign_in import SignInSettings
from portal.platform.site import SiteSettings


@dataclass(frozen=True)
class Platform(
    LimitSettings,
    LogSettings,
    FileSettings,
    SignInSettings,
    SiteSettings,
    ServerSettings,
    ProcessSettings,
):
    """All of them. Times are in seconds, amounts in the named unit."""


# The URLs without a password, and the setting that has it.
PASSWORDS = {
    "database_url": "db_password",
    "direct_database_url": "db_password",
    "redis_url": "redis_password",
    "broker_url": "broker_password",
}


def platform_reading(environ: Mapping[str, str]) -> SettingsReading[Platform]:
    """The settings with their sources, and what is wrong with them."""
    reading = read_settings(Platform, environ)
    values = reading.values
    joined: dict[str, Any] = {
        name: with_password(getattr(values, name), getattr(values, password))
        for name, password in PASSWORDS.items()
    }
    return replace(reading, values=replace(values, **joined))


def platform_from(environ: Mapping[str, str]) -> Platform:
    """The settings. Raises SettingsError, a ValueError, with a sentence for each that is wrong."""
    return platform_reading(environ).required()


def with_password(address: str, password: str) -> str:
    """A URL of a server with the password in it, unless it has one or names no server."""
    parts = urlsplit(address)
    if not password or not parts.hostname or parts.password:
        return address
    user, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}@{host}"))


def platform_secrets(platform: Platform) -> list[str]:
    """What no line of a log may have: the values of secrets, and the passwords in URLs."""
    hidden: list[str] = []
    for one in settings_of(Platform):
        value = getattr(platform, one.attribute)
        texts = [str(each) for each in (value if isinstance(value, tuple) else (value,))]
        if one.secrecy is Secrecy.WHOLE:
            hidden += texts
        else:
            hidden += [password for text in texts for password in password_of(text)]
    return hidden
