"""Command lines of launchers that start Python themselves: torchrun, accelerate, deepspeed."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a launcher, as it is written."""

    name: str
    """Without leading hyphens, with hyphens between its words."""
    value: str
    """Empty if it has none."""
    words: tuple[str, ...]

    @property
    def count(self) -> int:
        """Its value as a number of processes; 0 if it is none."""
        return int(self.value) if self.value.isdecimal() and len(self.value) < 5 else 0


def leading_options(
    words: Sequence[str], flags: Collection[str]
) -> tuple[list[Option], tuple[str, ...]]:
    """The options with which a launcher's arguments begin, and its program behind them. `flags`:
    names of those without a value."""
    left, options = list(words), []
    while left and left[0].startswith("-"):
        word = left.pop(0)
        written, has_value, value = word.partition("=")
        name = written.lstrip("-").replace("_", "-")
        words_of_option = [word]
        if not has_value and name not in flags and left:
            value = left.pop(0)
            words_of_option.append(value)
        options.append(Option(name, value, tuple(words_of_option)))
    return options, tuple(left)


def words_of(options: Iterable[Option]) -> list[str]:
    """As they are written."""
    return [word for option in options for word in option.words]


def is_python(program: str) -> bool:
    return program.rsplit("/", 1)[-1].startswith("python")


def start_program(
    program: Sequence[str],
    options: Sequence[str],
    *,
    script: Sequence[str],
    module: str,
    no_python: str = "--no-python",
    module_option: str = "-m",
) -> list[str]:
    """A launcher with its options and a program: `script`: how it is called. `module`: its Python
    module. `no_python`: the option by which it starts a program that is no Python script.
    `module_option`: that by which it starts a module."""
    words = list(program)
    if not is_python(words[0]):
        return [*script, *options, *([] if words[0].endswith(".py") else [no_python]), *words]
    # The launcher starts Python itself. It would read the interpreter's options, such as -u, as its
    # own: then it starts the full command.
    has_options = len(words) > 1 and words[1].startswith("-") and words[1] != "-m"
    started = [no_python, *words] if has_options else words[1:]
    if words[1:2] == ["-m"]:
        started = [module_option, *words[2:]]
    return [words[0], "-m", module, *options, *started]


def written_program(
    interpreter: Sequence[str], options: Iterable[Option], program: Sequence[str]
) -> tuple[str, ...]:
    """The program of a launcher's call, as it is written without the launcher."""
    names = {option.name for option in options}
    if "no-python" in names:
        return tuple(program)
    module = ("-m",) if names & {"m", "module"} else ()
    return (*interpreter, *module, *program)
