"""The command's variables. Their declaration is in `variables.py`, which needs more of Tessera than
the command line has where it is installed alone."""

from collections.abc import Mapping
from pathlib import Path

from portal.cli.exit_codes import CommandFailed, ExitCode

TOKEN_VARIABLES = ("TESSERA_TOKEN", "TESSERA_TOKEN_FILE")


def secret(env: Mapping[str, str], name: str) -> str:
    """The value of the variable, or of the file that NAME_FILE names; empty without either. Raises
    CommandFailed(variables_invalid)."""
    value, path = env.get(name, "").strip(), env.get(f"{name}_FILE", "")
    if not path:
        return value
    if value:
        raise _failed(f"{name} and {name}_FILE are both set: keep one of them")
    try:
        value = Path(path).read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text in UTF-8"
        raise _failed(f"{name}_FILE: {path} cannot be read ({reason})") from error
    if not value:
        raise _failed(f"{name}_FILE: {path} is empty")
    return value


def has_token(env: Mapping[str, str]) -> bool:
    """Whether the environment has a token, or names a file of one."""
    return any(env.get(name) for name in TOKEN_VARIABLES)


def without_token(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name not in TOKEN_VARIABLES}


def _failed(sentence: str) -> CommandFailed:
    return CommandFailed("variables_invalid", sentence, exit_code=ExitCode.USAGE)
