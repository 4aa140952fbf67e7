"""`manage.py show_settings`: every setting of the portal, where it is from, and what it does."""

import json
import os
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from agents.configuration.reading import SettingSource
from portal.configuration.report import SettingRow, setting_rows, settings_tables


class Command(BaseCommand):
    help = "Print every setting of the portal with its source. Secrets are masked."
    # It is for a portal that does not start, too.
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print a list of JSON objects")
        parser.add_argument("--changed", action="store_true", help="leave out those at the default")
        parser.add_argument("--docs", action="store_true", help="print the tables of the docs")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["docs"]:
            self.stdout.write(settings_tables(), ending="")
            return
        rows = setting_rows(os.environ)
        if options["changed"]:
            rows = [row for row in rows if row.source != SettingSource.DEFAULT]
        if options["json"]:
            self.stdout.write(json.dumps([asdict(row) for row in rows], indent=1))
        else:
            self._write_table(rows)

    def _write_table(self, rows: list[SettingRow]) -> None:
        width = max((len(row.name) for row in rows), default=0)
        for row in rows:
            self.stdout.write(f"{row.name:{width}}  {row.source:11}  {row.value}")
