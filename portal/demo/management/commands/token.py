"""`manage.py token alice`: a new API token, printed once. For the operator of the machine."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.accounts.models import TokenScope, User
from portal.accounts.services import token_create
from portal.errors import Refused


class Command(BaseCommand):
    help = "Create an API token for a user. Only its digest is stored, so it is shown only now."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument(
            "--scope", choices=[str(scope) for scope in TokenScope], default="write"
        )
        parser.add_argument("--days", type=int, default=30)

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["username"]).first()
        if user is None:
            raise CommandError(f"there is no user {options['username']}")
        try:
            _, text = token_create(
                user=user,
                name="manage.py token",
                scope=TokenScope(options["scope"]),
                ttl=timedelta(days=options["days"]),
                actor="manage.py",
            )
        except Refused as refused:
            raise CommandError(refused.sentence) from refused
        self.stdout.write(text)
