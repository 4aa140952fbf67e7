"""The `tessera` command. Every CommandFailed is printed here and becomes an exit code."""

from typing import Annotated, Any

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]
from typer.core import TyperGroup

from portal.cli.commands import actions as change
from portal.cli.commands import (
    admin,
    advise,
    apps,
    cluster,
    code,
    files,
    inspect,
    logs,
    metrics,
    ports,
    ranks,
    registries,
    secrets,
    services,
    session,
    ssh,
    submit,
    terminals,
    volumes,
)
from portal.cli.commands import usage as people
from portal.cli.context import CliContext, installed_version
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.output import print_failure

SHELLS = ("bash", "zsh", "fish")


class ReportingGroup(TyperGroup):
    """Prints a command's failure and exits with its code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except CommandFailed as failed:
            print_failure(failed)
            raise typer.Exit(failed.exit_code) from failed


app = typer.Typer(
    name="tessera",
    cls=ReportingGroup,
    help="Submit GPU jobs, follow them, and see why they wait. "
    "Docs: docs/cli.md. Start with: tessera login URL",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"tessera {installed_version()}")
        raise typer.Exit


@app.callback()
def main(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="show the version and exit"
        ),
    ] = False,
) -> None:
    context.ensure_object(CliContext)


@app.command()
def completion(
    shell: Annotated[str, typer.Argument(help="bash, zsh or fish")] = "bash",
) -> None:
    """Print the completion script: source <(tessera completion bash)."""
    if shell not in SHELLS:
        raise CommandFailed(
            "usage",
            f"{shell} is not one of {', '.join(SHELLS)}",
            "tessera completion bash",
            ExitCode.USAGE,
        )
    script = get_completion_script(
        prog_name="tessera", complete_var="_TESSERA_COMPLETE", shell=shell
    )
    typer.echo(script)


MODULES = (
    session,
    submit,
    inspect,
    logs,
    ranks,
    metrics,
    ports,
    terminals,
    ssh,
    files,
    change,
    cluster,
    advise,
    volumes,
    people,
)
for module in MODULES:
    module.add_to(app)
app.add_typer(code.app, name="code")
app.add_typer(apps.app, name="apps")
app.add_typer(secrets.app, name="secrets")
app.add_typer(registries.app, name="registries")
app.add_typer(services.app, name="service")
app.add_typer(admin.app, name="admin")
