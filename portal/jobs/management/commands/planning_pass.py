"""`manage.py planning_pass`: what the planner would be told now, saved as a file."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from portal.planning.snapshot import cluster_snapshot, queue
from portal.quotas.policy import policy_now
from scheduler.core.snapshot_file import saved_pass


class Command(BaseCommand):
    help = (
        "Saves the snapshot and the policy of a planning pass as of now, as one line of JSON. "
        "`python -m scheduler.replay snapshot FILE` plans it again and explains it. It holds names "
        "of people, projects, jobs and nodes, but no commands and no environments."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--output", type=Path, help="a file; standard output without it")

    def handle(self, *args: Any, **options: Any) -> None:
        policy = policy_now()
        snapshot = cluster_snapshot(
            now=timezone.now(), jobs=queue(), half_life_seconds=policy.half_life_seconds
        )
        text = saved_pass(snapshot, policy)
        if options["output"] is None:
            self.stdout.write(text)
            return
        try:
            options["output"].write_text(text + "\n")
        except OSError as wrong:
            raise CommandError(f"{options['output']}: {wrong.strerror}") from wrong
        waiting, running = len(snapshot.jobs), len(snapshot.running)
        self.stderr.write(f"{options['output']}: {waiting} jobs wait, {running} hold devices")
