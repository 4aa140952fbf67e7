"""`manage.py reseal_secrets`: after a new TESSERA_SECRET_KEY, before the old one is dropped."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.key_rotation.services import secrets_reseal


class Command(BaseCommand):
    help = (
        "Seal the secrets of webhooks and second steps with TESSERA_SECRET_KEY, so that "
        "TESSERA_SECRET_KEY_FALLBACKS can be removed. The portal may run; run it again if it ends."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="count, and change nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        is_dry = options["dry_run"]
        result = secrets_reseal(dry_run=is_dry)
        done = "need an earlier key" if is_dry else "resealed with the present key"
        self.stdout.write(f"{result.resealed} {done}, {result.current} had the present key before")
        if result.unreadable:
            raise CommandError(
                f"{len(result.unreadable)} cannot be read with any key that is set: "
                f"{', '.join(result.unreadable[:10])}. Add the key that sealed them to "
                "TESSERA_SECRET_KEY_FALLBACKS, or let their owners make new ones."
            )
        if not is_dry:
            self.stdout.write("TESSERA_SECRET_KEY_FALLBACKS seals nothing any more")
