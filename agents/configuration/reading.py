"""Values of settings from variables and files. No sentence has the value of a secret."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Generic, TypeVar

from agents.configuration.declaration import Setting, settings_of

T = TypeVar("T")
# No secret is longer; a path by mistake, such as /dev/zero, is not read to its end.
MAX_FILE_BYTES = 64 * 1024


class SettingsError(ValueError):
    """Settings that cannot be used: a sentence a line, each with the name of its variable."""


class SettingSource(StrEnum):
    DEFAULT = "default"
    ENVIRONMENT = "environment"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class SettingsReading(Generic[T]):
    values: T
    """With the default where a value cannot be used."""
    sources: Mapping[str, SettingSource]
    """Where each value is from, by the setting's name."""
    problems: tuple[str, ...] = ()

    def required(self) -> T:
        """The values. Raises SettingsError with every problem."""
        if self.problems:
            raise SettingsError("\n".join(self.problems))
        return self.values


def read_settings(declaring: type[T], environ: Mapping[str, str]) -> SettingsReading[T]:
    """The settings of a dataclass. A variable that is empty counts as not set."""
    values: dict[str, object] = {}
    sources: dict[str, SettingSource] = {}
    problems = []
    for one in settings_of(declaring):
        try:
            text, sources[one.name] = _text(one, environ)
            if text is not None:
                values[one.attribute] = _value(one, text, sources[one.name])
        except SettingsError as problem:
            problems.append(str(problem))
            sources.setdefault(one.name, SettingSource.DEFAULT)
    return SettingsReading(declaring(**values), sources, tuple(problems))


def _text(one: Setting, environ: Mapping[str, str]) -> tuple[str | None, SettingSource]:
    text = environ.get(one.name, "")
    path = environ.get(one.file_name, "") if one.is_secret else ""
    if text and path:
        raise SettingsError(f"{one.name} and {one.file_name} are both set: keep one of them")
    if path:
        return _content(one.file_name, Path(path)), SettingSource.FILE
    if text.strip():
        return text, SettingSource.ENVIRONMENT
    return None, SettingSource.DEFAULT


def _content(name: str, path: Path) -> str:
    """The file's text without the line breaks at its end."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        text = data.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{name}: {path} is not a text in UTF-8") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a path"
        raise SettingsError(f"{name}: {path} cannot be read ({reason})") from error
    if len(data) > MAX_FILE_BYTES:
        raise SettingsError(f"{name}: {path} is larger than {MAX_FILE_BYTES // 1024} KiB")
    if not text.strip():
        raise SettingsError(f"{name}: {path} is empty")
    return text


def _value(one: Setting, text: str, source: SettingSource) -> object:
    try:
        if "\n" in text and not isinstance(one.default, tuple):
            raise ValueError("more than one line")
        return one.kind.parse(text)
    except (ValueError, TypeError) as error:
        if source == SettingSource.FILE:
            subject = f"{one.file_name}: its content"
        else:
            subject = one.name if one.is_secret else f"{one.name}={text!r}"
        # From None: the cause has the value, and a traceback would show it.
        words = f"{subject} must be {one.kind.allowed}"
        raise SettingsError(f"{words}, in one line" if "\n" in text else words) from (
            None if one.is_secret else error
        )
