"""A setting is a field of a dataclass, declared with `setting`: all else is derived from it."""

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, TypeVar

from agents.configuration.value_kinds import ValueKind, kind_of

T = TypeVar("T")
DECLARED = "setting"


class SettingReader(StrEnum):
    """The programs that read settings; the first four have the portal's image."""

    WEB = "web"
    WORKER = "worker"
    BEAT = "beat"
    MIGRATE = "migrate"
    COMPOSE = "docker compose"
    DEMONSTRATION = "manage.py demo"
    AGENT = "tessera-agent"
    COMMAND_LINE = "tessera"


class Secrecy(StrEnum):
    """How much of a value may be shown. What is secret may also come from a file."""

    NONE = "none"
    URL = "url"
    """A URL, but for its password and its query."""
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class Setting:
    """A declared setting: the variable `name`, kept as the field `attribute`."""

    name: str
    attribute: str
    default: object
    help: str
    kind: ValueKind
    readers: tuple[SettingReader, ...]
    secrecy: Secrecy

    @property
    def is_secret(self) -> bool:
        return self.secrecy != Secrecy.NONE

    @property
    def file_name(self) -> str:
        """The variable with the path of a file that has the value; for secrets only."""
        return f"{self.name}_FILE"


def setting(
    default: T,
    help: str,
    *,
    readers: tuple[SettingReader, ...] | SettingReader,
    kind: ValueKind | None = None,
    secrecy: Secrecy = Secrecy.NONE,
    name: str = "",
) -> T:
    """A field of a dataclass of settings. Its variable is TESSERA_ and the field's name, or `name`;
    its kind is that of the default."""
    readers = (readers,) if isinstance(readers, SettingReader) else readers
    declared = {
        "name": name,
        "default": default,
        "help": help,
        "kind": kind or kind_of(default),
        "readers": readers,
        "secrecy": secrecy,
    }
    is_shown = secrecy == Secrecy.NONE
    made: Any = field(default=default, repr=is_shown, metadata={DECLARED: declared})
    return made  # type: ignore[no-any-return]  # as `dataclasses.field` does: it stands for a value


def settings_of(declaring: type) -> tuple[Setting, ...]:
    """The settings of a dataclass, in the order of its fields."""
    found = []
    for one in fields(declaring):
        declared = dict(one.metadata[DECLARED])
        name = declared.pop("name") or f"TESSERA_{one.name.upper()}"
        found.append(Setting(name=name, attribute=one.name, **declared))
    return tuple(found)


def names_of(declaring: type) -> set[str]:
    """The variables that its settings are read from."""
    declared = settings_of(declaring)
    return {one.name for one in declared} | {one.file_name for one in declared if one.is_secret}
