"""The settings of this process with their sources, as rows; secrets are masked."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agents.configuration.agent_settings import AgentVariables
from agents.configuration.declaration import Secrecy, Setting, names_of, settings_of
from agents.configuration.reading import SettingSource, read_settings
from agents.configuration.value_kinds import PATH, TEXT
from portal.cli.variables import CommandLineVariables
from portal.platform import Platform

MASK = "********"
# The programs of each table in docs/settings.md.
DECLARATIONS = {
    "The portal": Platform,
    "The agent": AgentVariables,
    "The command line": CommandLineVariables,
}
# Of jobs, the tests and Django's own commands: not of Tessera's programs, but no mistake either.
OTHER_NAMES = frozenset(("TESSERA_TEST_GPU_RESTARTED", "TESSERA_MUTANTS_FD"))


@dataclass(frozen=True, slots=True)
class SettingRow:
    name: str
    value: str
    """As text; of a secret, only what may be shown."""
    source: SettingSource
    default: str
    secret: bool
    readers: tuple[str, ...]
    help: str


def setting_rows(environ: Mapping[str, str]) -> list[SettingRow]:
    """The portal's settings. Raises SettingsError if one cannot be read."""
    reading = read_settings(Platform, environ)
    values = reading.required()
    return [
        SettingRow(
            one.name,
            shown_value(one, getattr(values, one.attribute)),
            reading.sources[one.name],
            text_of(one.default),
            one.is_secret,
            tuple(str(program) for program in one.readers),
            one.help,
        )
        for one in settings_of(Platform)
    ]


def shown_value(one: Setting, value: object) -> str:
    text = text_of(value)
    if not text or one.secrecy == Secrecy.NONE:
        return text
    return masked_url(text) if one.secrecy == Secrecy.URL else MASK


def masked_url(address: str) -> str:
    """A URL without its password and its query, which may have one, too."""
    scheme, colon, rest = address.partition("://")
    # Up to the last @, wherever it is: too much is masked rather than too little.
    user, at, place = rest.rpartition("@")
    name, has_password, _ = user.partition(":")
    shown = f"{name}:{MASK}" if has_password else name
    place, has_query, _ = place.partition("?")
    query = f"?{MASK}" if has_query else ""
    return f"{scheme}{colon}{shown}{at}{place}{query}"


def text_of(value: object) -> str:
    """A value as it would stand in a variable."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, Path) or value is not None else ""


def known_names() -> frozenset[str]:
    """Every variable that some program of Tessera reads."""
    return OTHER_NAMES.union(*(names_of(declaring) for declaring in DECLARATIONS.values()))


def settings_tables() -> str:
    """The tables of docs/settings.md."""
    return "\n".join(f"## {title}\n\n{_table(one)}" for title, one in DECLARATIONS.items())


def _table(declaring: type) -> str:
    head = "| Variable | Default | Read by | Meaning |\n|---|---|---|---|\n"
    return head + "".join(_line(one) for one in settings_of(declaring))


def _line(one: Setting) -> str:
    name = f"`{one.name}`" + (f"<br>`{one.file_name}`" if one.is_secret else "")
    default = f"`{text}`" if (text := text_of(one.default)) else ""
    readers = ", ".join(one.readers)
    # "A text" and "a path" say nothing.
    words = "" if one.kind in (TEXT, PATH) else f"{one.kind.allowed}."
    meaning = f"{one.help} {words[:1].upper()}{words[1:]}".strip()
    return f"| {name} | {default} | {readers} | {meaning} |\n"
