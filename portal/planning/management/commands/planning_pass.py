"""`manage.py planning_pass`: what the planner would be told now, saved as a file."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from portal.planning.planner_input import planner_input, queued_jobs
from portal.quotas.policy import current_policy
from scheduler.core.snapshot_file import write_pass


class Command(BaseCommand):
    help = (
        "Saves the snapshot and the policy of a planning pass as of now, as one line of JSON. "
        "`python -m scheduler.replay snapshot FILE` plans it again and explains it. It holds names "
        "of people, projects, jobs and nodes, but no commands and no environments."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--output", type=Path, help="a file; standard output without it")

    def handle(self, *args: Any, **options: Any) -> None:
        policy = current_policy()
        snapshot = planner_input(now=timezone.now(), policy=policy, jobs=queued_jobs())
        text = write_pass(snapshot, policy)
        if options["output"] is None:
            self.stdout.write(text)
            return
        try:
            options["output"].write_text(text + "\n")
        except OSError as wrong:
            raise CommandError(f"{options['output']}: {wrong.strerror}") from wrong
        waiting, running = len(snapshot.jobs), len(snapshot.running)
        self.stderr.write(f"{options['output']}: {waiting} jobs wait, {running} hold devices")
