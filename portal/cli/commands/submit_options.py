"""The options of `tessera submit`: those of the request from its table, and what else there is."""

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from typer import Argument, Context, Option
from typer.core import TyperCommand

from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.request_builder import environment_from_flags, parse_share, parse_time_limit
from scheduler.core.request_fields import (
    FIELDS,
    FieldGroup,
    FieldKind,
    RequestField,
    read_count_range,
)

Texts = list[str] | None
AFTER = "After submitting"
PANELS = {
    FieldGroup.DEVICE: "The device",
    FieldGroup.WHERE: "Where it runs",
    FieldGroup.WHEN: "When it runs",
}

Command = Annotated[Texts, Argument(help="-- COMMAND..., or a script with an #SBATCH header")]
File = Annotated[
    str, Option("--file", "-f", help="YAML or a script with an #SBATCH header; - is stdin")
]

# After submitting.
DryRun = Annotated[
    bool, Option("--dry-run", help="show what a submit would do", rich_help_panel=AFTER)
]
Sync = Annotated[
    str,
    Option(
        "--sync",
        metavar="FOLDER",
        help="send this folder as the job's code: the command starts in it; what .gitignore and "
        ".tesseraignore name stays here",
    ),
]
Count = Annotated[
    int,
    Option("--count", min=1, max=100_000, help="how many copies; up to 1,000 jobs are all or none"),
]
Yes = Annotated[bool, Option("--yes", "-y", help="do not ask to confirm", rich_help_panel=AFTER)]
Detach = Annotated[
    bool, Option("--detach", "-d", help="do not follow the job", rich_help_panel=AFTER)
]
Wait = Annotated[
    bool,
    Option(
        "--wait",
        "-W",
        help="wait for the end and exit with the job's exit code",
        rich_help_panel=AFTER,
    ),
]
Timeout = Annotated[
    float | None, Option(help="seconds to wait; then exit code 6", rich_help_panel=AFTER)
]
Key = Annotated[str, Option(help="idempotency key for safe retries", rich_help_panel=AFTER)]

# The type of an option, and its value if it is not used.
TYPES: Mapping[FieldKind, tuple[Any, Any]] = {
    FieldKind.COUNT: (int | None, None),
    FieldKind.YES_NO: (bool | None, None),
    FieldKind.WORDS: (Texts, None),
    FieldKind.VARIABLES: (Texts, None),
    FieldKind.VOLUMES: (Texts, None),
}
OPTIONS = [field for field in FIELDS if field.flags]


def with_request_options(submit: Callable[..., None]) -> Callable[..., None]:
    """`submit` with a parameter for each flag of the table instead of its `**options`."""
    own = list(inspect.signature(submit, eval_str=True).parameters.values())
    file = next(at for at, each in enumerate(own) if each.name == "file") + 1
    parameters = [*own[:file], *map(_parameter, OPTIONS), *own[file:-1]]
    submit.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return submit


def _parameter(field: RequestField) -> inspect.Parameter:
    kind, default = TYPES.get(field.kind, (str, ""))
    flags = list(field.flags)
    if field.kind is FieldKind.YES_NO:
        flags[0] += f"/--no-{flags[0].removeprefix('--')}"
    option = Option(*flags, help=_help(field), rich_help_panel=PANELS.get(field.group))
    return inspect.Parameter(
        field.option,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=default,
        annotation=Annotated[kind, option],
    )


def _help(field: RequestField) -> str:
    if field.flag_help:
        return field.flag_help
    words = f" {', '.join(field.choices)}." if field.choices else ""
    return f"{field.help}{words}{field.example_and_default}"


class SubmitCommand(TyperCommand):
    """Refuses an option written under two of its names: which one counts is not clear."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:  # type: ignore[override]
        _, rest, order = self.make_parser(ctx).parse_args(list(args))
        written = {word.partition("=")[0] for word in args[: len(args) - len(rest)]}
        for option, times in Counter(order).items():
            names = [name for name in option.opts if name in written]
            if times > 1 and len(names) > 1 and not getattr(option, "multiple", False):
                sentence = f"{' and '.join(names)} are the same option: write one of them"
                raise CommandFailed("usage", sentence, "tessera submit --help", ExitCode.USAGE)
        return super().parse_args(ctx, args)


def request_fields(options: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, Any]:
    """The request fields that these options set, without those that were not given.

    `options` are Click's parameters by name: a repeatable option is a tuple. Raises
    CommandFailed(usage).
    """
    fields: dict[str, Any] = {}
    for field, value in _written(options, env):
        field.write_to(fields, value)
    return fields


def _written(
    options: Mapping[str, Any], env: Mapping[str, str]
) -> Iterator[tuple[RequestField, Any]]:
    for field in OPTIONS:
        value = options[field.option]
        if value in (None, "", (), []):
            continue
        match field.kind:
            case FieldKind.COUNT_RANGE:
                value = read_count_range(value)
            case FieldKind.SHARE:
                value = parse_share(value)
            case FieldKind.DURATION:
                value = parse_time_limit(field.flags[0], value)
            case FieldKind.VARIABLES:
                value = environment_from_flags(list(value), env)
            case FieldKind.WORDS | FieldKind.VOLUMES:
                value = list(value)
        yield field, value
