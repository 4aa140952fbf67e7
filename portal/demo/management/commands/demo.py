"""`manage.py demo [--no-job]`: the demonstration; DEMO_EXIT=1 ends it after the example job.

`manage.py demo --new-passwords` only replaces the passwords of its users, also while it runs.
"""

import os
import signal
import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from portal.demo.demonstration import Demonstration, password_lines
from portal.demo.preflight import NEW_PASSWORDS, UnsuitableMachine, check_machine, port_from
from portal.demo.processes import DemoFailed
from portal.demo.remedies import manage_command, var_variable
from portal.demo.seed import replace_passwords
from portal.demo.terminal import Screen


class Command(BaseCommand):
    help = "Run the whole product on this machine with simulated GPUs and an example job."
    # For a quick start; `make test` runs the checks.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--no-job", action="store_true", help="do not submit the example job")
        parser.add_argument(
            NEW_PASSWORDS, action="store_true", help="print new passwords of its users, and end"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["new_passwords"]:
            return self._print_new_passwords()
        return self._run(with_job=not options["no_job"])

    def _print_new_passwords(self) -> None:
        var = settings.PLATFORM.var.resolve()
        try:
            passwords = replace_passwords()
        except OperationalError as error:
            raise CommandError(f"the database of {var} cannot be used: {error}") from error
        if not passwords:
            begin = manage_command("demo", environ=var_variable(var))
            raise CommandError(f"{var} has no users of a demonstration yet: {begin}")
        for line in password_lines(passwords, var):
            self.stdout.write(line)

    def _run(self, *, with_job: bool) -> None:
        demonstration = Demonstration(
            var=settings.PLATFORM.var.resolve(),
            port=_port(),
            screen=Screen(sys.stdout),
            environ=os.environ,
        )
        ends = os.environ.get("DEMO_EXIT", "") not in ("", "0")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _interrupt)
        try:
            result = demonstration.run(with_job=with_job, stay=not ends)
        except DemoFailed as failed:
            raise CommandError(str(failed)) from failed
        except KeyboardInterrupt:
            self.stdout.write("\n  everything has been stopped")
            return
        if result is not None:
            self.stdout.write(result.as_json())
            if not result.is_good:
                raise SystemExit(1)


def _port() -> int:
    """The port, once the machine has been checked. Raises CommandError."""
    try:
        check_machine(os.environ)
        return port_from(os.environ)
    except UnsuitableMachine as unfit:
        raise CommandError(str(unfit), returncode=2) from unfit


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
