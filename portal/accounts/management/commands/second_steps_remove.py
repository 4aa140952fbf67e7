"""`manage.py second_steps_remove alice --by root`, for a user who lost their phone and codes."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.accounts.models import User
from portal.accounts.profiles import second_steps_remove


class Command(BaseCommand):
    help = "Remove a user's authenticator app, passkeys and recovery codes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument(
            "--by", required=True, help="user name of the admin, for the audit trail"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["username"]).first()
        if user is None:
            raise CommandError(f"there is no user {options['username']}")
        count = second_steps_remove(user=user, actor=options["by"])
        self.stdout.write(f"{count} removed; {user.username} can now sign in with a password alone")
