"""Reads the program of a container: its image, the command, its code and the environment.

Each reader reports problems to `refuse` and returns a valid value in any case.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from agents.contract.environment import is_environment_name, is_reserved
from agents.contract.git_source import GitSourceError, is_git_source, read_git_source
from agents.contract.image_reference import ImageReferenceError, is_image_allowed, read_image
from agents.contract.launcher_names import LauncherName
from agents.contract.message import Message
from agents.launchers.registry import LAUNCHERS
from scheduler.core.request.values import ProblemCode, Refuse

# In place of the values of variables, for readers of a job who may not read them.
HIDDEN_VALUE = "***"
MAX_COMMAND, MAX_WORD, MAX_ENV = 1_024, 32_768, 256


def read_image_name(value: Any, allow: Sequence[str] | None, refuse: Refuse) -> str:
    """The name of an image. `allow`: patterns of the allowed ones; None leaves the name as it is,
    whatever it is."""
    if not isinstance(value, str) or not value:
        refuse("image", ProblemCode.VALUE, "write an image name, such as registry/pytorch:2.7")
        return ""
    if allow is None:
        return value
    try:
        read_image(value)
    except ImageReferenceError as error:
        refuse("image", ProblemCode.VALUE, error.message)
        return ""
    if not is_image_allowed(value, tuple(allow)):
        allowed = ", ".join(allow)
        sentence = Message(
            "%(image)s is not allowed here. Use: %(allowed)s", image=value, allowed=allowed
        )
        refuse("image", ProblemCode.FORBIDDEN, sentence)
    return value


def read_command(value: Any, refuse: Refuse) -> tuple[str, ...]:
    """The words of a command; none for an image's own program."""
    if not isinstance(value, list):
        sentence = Message('write a list of words, such as ["python", "train.py"]')
        refuse("command", ProblemCode.TYPE, sentence)
        return ()
    if len(value) > MAX_COMMAND:
        refuse("command", ProblemCode.RANGE, Message("at most %(n)s words", n=MAX_COMMAND))
        return ()
    for index, word in enumerate(value):
        if not isinstance(word, str):
            refuse(f"command.{index}", ProblemCode.TYPE, "each word is a text: put it in quotes")
        elif "\0" in word or len(word) > MAX_WORD:
            sentence = Message("no NUL character, and at most %(n)s characters", n=MAX_WORD)
            refuse(f"command.{index}", ProblemCode.VALUE, sentence)
    return tuple(str(word) for word in value)


def require_command(value: Any, launcher: LauncherName, refuse: Refuse) -> None:
    """`value`: as it was given. Only an image's own program needs no command."""
    if value in (None, []) and not LAUNCHERS[launcher].keeps_entrypoint:
        sentence = (
            "write a command, such as python train.py; without one, launcher entrypoint runs the "
            "image's own program"
        )
        refuse("command", ProblemCode.MISSING, sentence)


def read_code(value: Any, refuse: Refuse) -> str:
    """The id of a code tree, as UUIDs are written, or a git source; "" without one."""
    if isinstance(value, str) and is_git_source(value):
        return _read_git(value.strip(), refuse)
    try:
        return str(UUID(value.strip())) if value else ""
    except (AttributeError, ValueError):
        sentence = (
            "write the id of code that was sent with tessera submit --sync, or a repository such as"
            " git+https://host/team/project.git@main"
        )
        refuse("code", ProblemCode.VALUE, sentence)
        return ""


def _read_git(text: str, refuse: Refuse) -> str:
    try:
        return str(read_git_source(text))
    except GitSourceError as error:
        mended = {"code": error.suggestion} if error.suggestion else None
        refuse("code", ProblemCode.VALUE, error.message, mended)
        return ""


def read_env(value: Any, refuse: Refuse) -> dict[str, str]:
    """Environment variables by name, without those that have a problem."""
    if not isinstance(value, Mapping) or len(value) > MAX_ENV:
        sentence = Message(
            'write env as names and texts, such as {"BATCH": "64"}, at most %(n)s', n=MAX_ENV
        )
        refuse("env", ProblemCode.TYPE, sentence)
        return {}
    variables = {}
    for name, text in value.items():
        if problem := _env_problem(name, text):
            refuse(f"env.{name!s:.64}", *problem)
        if problem is None or problem[0] is ProblemCode.COMBINATION:
            variables[name] = text
    return variables


def _env_problem(name: Any, text: Any) -> tuple[ProblemCode, Message | str] | None:
    if not isinstance(name, str) or not is_environment_name(name):
        return ProblemCode.VALUE, "a name has letters, digits and underscores only"
    if is_reserved(name):
        return ProblemCode.RESERVED, Message("%(name)s is set by Tessera: remove it", name=name)
    if not isinstance(text, str) or "\0" in text or len(text) > MAX_WORD:
        return ProblemCode.TYPE, 'the value is a text: put it in quotes, such as "64"'
    if text == HIDDEN_VALUE:
        # A stored request is read with it.
        return ProblemCode.COMBINATION, "write its value: you may not read the one of the other job"
    return None
