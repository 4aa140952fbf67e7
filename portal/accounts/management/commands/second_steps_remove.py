"""`manage.py second_steps_remove alice --by root`: for somebody who lost phone and codes."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.accounts.models import User
from portal.accounts.profiles import second_steps_remove


class Command(BaseCommand):
    help = "Take a user's authenticator app, passkeys and recovery codes away."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--by", required=True, help="who does it, for the audit")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["username"]).first()
        if user is None:
            raise CommandError(f"there is no user {options['username']}")
        count = second_steps_remove(user=user, actor=options["by"])
        self.stdout.write(f"{count} taken away; a password alone signs {user.username} in")
