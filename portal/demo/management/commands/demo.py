"""`manage.py demo [--no-job]`: everything here; DEMO_EXIT=1 ends after the example's result."""

import os
import signal
import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from portal.demo.demonstration import House
from portal.demo.preflight import Unfit, check_machine, port_from
from portal.demo.processes import DemoFailed
from portal.demo.terminal import Screen


class Command(BaseCommand):
    help = "Run the whole product on this machine with simulated GPUs, and an example job."
    # The second start should be quick, and `make test` runs the checks.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--no-job", action="store_true", help="submit no example job")

    def handle(self, *args: Any, **options: Any) -> None:
        house = House(
            var=settings.PLATFORM.var.resolve(),
            port=_port(),
            screen=Screen(sys.stdout),
            environ=os.environ,
        )
        ends = os.environ.get("DEMO_EXIT", "") not in ("", "0")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _interrupt)
        try:
            result = house.run(with_job=not options["no_job"], stay=not ends)
        except DemoFailed as failed:
            raise CommandError(str(failed)) from failed
        except KeyboardInterrupt:
            self.stdout.write("\n  everything has stopped")
            return
        if result is not None:
            self.stdout.write(result.as_json())
            if not result.is_good:
                raise SystemExit(1)


def _port() -> int:
    """The port, on a machine that was found fit. Raises CommandError."""
    try:
        check_machine(os.environ)
        return port_from(os.environ)
    except Unfit as unfit:
        raise CommandError(str(unfit), returncode=2) from unfit


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
