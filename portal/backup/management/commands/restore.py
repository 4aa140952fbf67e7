"""`manage.py restore FILE`: back to the moment of an archive. Stop web, workers and beat first."""

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.backup.archive import BackupError
from portal.backup.services import MARGIN, RestoreResult, backup_restore


class Command(BaseCommand):
    help = "Replace the database and the store's objects by those of an archive."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument(
            "--yes-replace", action="store_true", help="replace a database that is not empty"
        )
        parser.add_argument(
            "--margin",
            type=int,
            default=MARGIN,
            help="how many numbers of jobs and attempts to skip: they may have been used since",
        )
        parser.add_argument("--keys-to", type=Path, help="a new file for the archive's secret keys")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["margin"] < 1:
            raise CommandError("--margin is at least 1")
        if options["keys_to"] and options["keys_to"].exists():
            raise CommandError(f"{options['keys_to']} exists already: give another name")
        try:
            result = backup_restore(
                options["file"].resolve(),
                replace=options["yes_replace"],
                margin=options["margin"],
                needs_keys=bool(options["keys_to"]),
            )
            if options["keys_to"]:
                self._write_keys(options["keys_to"], result.manifest.keys)
        except (BackupError, OSError) as error:
            raise CommandError(str(error)) from error
        self._report(result)

    def _write_keys(self, target: Path, keys: list[str]) -> None:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.writelines(f"{key}\n" for key in keys)

    def _report(self, result: RestoreResult) -> None:
        self.stdout.write(f"restored to {result.manifest.made_at}")
        self.stdout.write(f"{result.nodes} nodes have to report before anything is placed")
        for one in result.broken:
            self.stdout.write(f"{one.stream}: {one.object_name} is {one.problem}")
        if result.logs_cut:
            self.stdout.write(f"{result.logs_cut} logs were cut to what exists")
        if result.unreadable_keys:
            self.stderr.write(
                "TESSERA_SECRET_KEY is not the key of the archive: secrets of webhooks and "
                "authenticator apps cannot be read. Add the old key to TESSERA_SECRET_KEY_FALLBACKS"
            )
        self.stdout.write(
            "Everybody has to sign in again. Tokens, keys of nodes and members that were removed "
            "since are back: look at them. Unused join tokens are gone"
        )
