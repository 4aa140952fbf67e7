"""`manage.py demo [--no-job]`: the demonstration; DEMO_EXIT=1 ends it after the example job."""

import os
import signal
import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from portal.demo.demonstration import Demonstration
from portal.demo.preflight import UnsuitableMachine, check_machine, port_from
from portal.demo.processes import DemoFailed
from portal.demo.terminal import Screen


class Command(BaseCommand):
    help = "Run the whole product on this machine with simulated GPUs and an example job."
    # For a quick start; `make test` runs the checks.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--no-job", action="store_true", help="do not submit the example job")

    def handle(self, *args: Any, **options: Any) -> None:
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
            result = demonstration.run(with_job=not options["no_job"], stay=not ends)
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
