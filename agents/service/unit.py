"""The text of the unit and of its environment file, in the grammars of systemd. Pure.

Sources: systemd.service(5), "Command lines"; systemd.exec(5), EnvironmentFile=; systemd.syntax(7).
"""

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files

NAME = "tessera-agent.service"
# A backslash goes first, so that it does not escape the escapes.
_COMMAND_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("$", "$$"), ("%", "%%"))
_VALUE_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("$", "\\$"), ("`", "\\`"))


class UnitRefused(Exception):
    """A word that a unit cannot hold."""


def unit_text(command: Sequence[str], folder: str, environment: str) -> str:
    """`command`: the program by its absolute path, and its arguments. `folder`: where it runs.
    `environment`: the path of the environment file. Raises UnitRefused."""
    if "$" in command[0]:
        # systemd expands it in the arguments, but not in the path that it runs.
        raise UnitRefused(f"{command[0]} has a $ in its path, which systemd cannot run")
    text = files(__package__).joinpath(NAME).read_text("utf-8")
    words = {
        "@COMMAND@": " ".join(map(command_word, command)),
        "@FOLDER@": path_word(folder),
        "@ENVIRONMENT@": path_word(environment),
    }
    for placeholder, word in words.items():
        text = text.replace(placeholder, word)
    return text


def command_word(word: str) -> str:
    """One word of ExecStart=, quoted, that systemd neither splits nor expands."""
    return f'"{_escaped(word, _COMMAND_ESCAPES)}"'


def path_word(path: str) -> str:
    """The value of a setting that takes one path: it is not quoted, and `%` expands."""
    return _printable(path).replace("%", "%%")


def environment_text(variables: Mapping[str, str]) -> str:
    """An environment file, one variable a line. Raises UnitRefused."""
    lines = [f'{name}="{_escaped(value, _VALUE_ESCAPES)}"\n' for name, value in variables.items()]
    return "".join(lines)


def environment_values(text: str) -> dict[str, str]:
    """The variables of a file by `environment_text`; lines that it does not write are left out."""
    found = {}
    for line in text.splitlines():
        name, separator, value = line.partition('="')
        if separator and value.endswith('"'):
            found[name] = re.sub(r"\\(.)", r"\1", value[:-1])
    return found


def _escaped(word: str, escapes: tuple[tuple[str, str], ...]) -> str:
    for plain, escaped in escapes:
        word = word.replace(plain, escaped)
    return _printable(word)


def _printable(word: str) -> str:
    if not word.isprintable():
        raise UnitRefused(f"{word!r} has characters that a unit cannot hold")
    return word
