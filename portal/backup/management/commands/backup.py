"""`manage.py backup FILE`: the database and the store at one moment, in one archive."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.backup.archive import BackupError
from portal.backup.services import backup_write


class Command(BaseCommand):
    help = "Write one archive of the database and the objects that it names. The portal may run."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument(
            "--with-keys",
            action="store_true",
            help="include the secret keys in clear: the archive then reveals every secret",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            manifest = backup_write(options["file"].resolve(), with_keys=options["with_keys"])
        except (BackupError, OSError) as error:
            raise CommandError(str(error)) from error
        counts = ", ".join(f"{count} {noun}" for noun, count in manifest.counts.items())
        self.stdout.write(f"{options['file']}: {counts}, {len(manifest.digests)} members")
        for name in manifest.missing:
            self.stderr.write(f"the store does not have {name}")
        if not manifest.keys:
            self.stdout.write(
                "The archive does not contain TESSERA_SECRET_KEY: keep a copy, a restore needs it"
            )
