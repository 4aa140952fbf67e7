"""`manage.py seed_scale`: 10,000 jobs on 1,000 nodes with 8,000 GPUs, for measuring pages."""

import secrets
import time
from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from portal.accounts.models import Project, User
from portal.demo.scale import ClusterSize, seed_scale
from portal.inventory.models import Node
from portal.jobs.models import Job

STANDARD = ClusterSize()


class Command(BaseCommand):
    help = (
        "Write a large cluster into an empty database: users, projects, nodes, GPUs, slices, jobs "
        "and 90 days of allocations. No agents run behind it. The same seed gives the same rows."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--jobs", type=int, default=STANDARD.jobs)
        parser.add_argument(
            "--nodes", type=int, default=STANDARD.nodes, help="nodes with 8 GPUs each"
        )
        parser.add_argument("--users", type=int, default=STANDARD.users)
        parser.add_argument("--projects", type=int, default=STANDARD.projects)
        parser.add_argument("--seed", type=int, default=1)
        parser.add_argument("--now", help="ISO time at which the rows end; default: now")
        parser.add_argument(
            "--password",
            action="store_true",
            help="set one password for admin, paul (admin of vision) and alice, and print it",
        )
        parser.add_argument(
            "--beside", action="store_true", help="write even if the database has rows"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["beside"] and (rows := _existing_rows()):
            raise CommandError(
                f"this database already has {rows}: set TESSERA_DATABASE_URL or TESSERA_VAR to an "
                "empty one, or use --beside"
            )
        if User.objects.filter(username__in=("admin", "paul", "alice")).exists():
            raise CommandError("admin, paul or alice already exist here: use another database")
        size = ClusterSize(*(max(1, options[n]) for n in ("jobs", "nodes", "users", "projects")))
        password = secrets.token_urlsafe(12) if options["password"] else ""
        began = time.monotonic()
        seed_scale(
            size,
            seed=options["seed"],
            now=_now(options["now"]),
            report=lambda line: self.stdout.write(f"{time.monotonic() - began:6.1f} s  {line}"),
            password=password,
        )
        if password:
            self.stdout.write(f"admin, paul and alice: password {password}")


def _existing_rows() -> str:
    counts = {
        "nodes": Node.objects.count(),
        "jobs": Job.objects.count(),
        "projects": Project.objects.count(),
    }
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def _now(text: str | None) -> datetime:
    if not text:
        return timezone.now().replace(microsecond=0)
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else timezone.make_aware(moment)
