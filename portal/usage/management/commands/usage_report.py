"""`manage.py usage_report`: print the reports of a month, or send those that were not sent yet."""

from argparse import ArgumentParser
from datetime import date
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone
from django.utils.dateparse import parse_date

from portal.accounts.models import Project, User
from portal.usage.report import monthly_usage, previous_month, report_email
from portal.usage.services import reports_send


class Command(BaseCommand):
    help = "Print the usage of projects in a month. With --send, email it to their admins, once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--month", default="", help="such as 2026-10; default: last month")
        parser.add_argument(
            "--project", default="", help="slug of a project; default: every project"
        )
        parser.add_argument("--language", default="en", choices=[c for c, _ in settings.LANGUAGES])
        parser.add_argument(
            "--send", action="store_true", help="send the reports instead of printing them"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        now, month = timezone.now(), self._month(options["month"])
        project = self._project(options["project"])
        if not options["send"]:
            return self._print(month, project, options["language"])
        if not settings.MAIL_IS_SET:
            raise CommandError(
                "No mail server is set up: set TESSERA_EMAIL_URL and TESSERA_EMAIL_FROM"
            )
        sender = settings.DEFAULT_FROM_EMAIL
        sent = reports_send(month=month, sender=sender, now=now, project=project)
        for report in sent:
            self.stdout.write(f"sent: {report}")
        self.stdout.write(f"{len(sent)} sent")
        return None

    def _print(self, month: date, project: Project | None, language: str) -> None:
        rows = [project] if project else Project.objects.filter(archived=False).order_by("slug")
        reader = User(username="-", language=language)
        for row in rows:
            figures = monthly_usage(row, month, timezone.now())
            message = report_email(figures, reader, settings.DEFAULT_FROM_EMAIL)
            self.stdout.write(f"{message.subject}\n\n{message.body}\n")

    def _month(self, text: str) -> date:
        if not text:
            return previous_month(timezone.localdate())
        try:
            found = parse_date(f"{text}-01")
        except ValueError:
            found = None
        if found is None:
            raise CommandError(f"{text!r} is not a month. Write it as 2026-10")
        return found

    def _project(self, slug: str) -> Project | None:
        if not slug:
            return None
        row = Project.objects.filter(slug=slug).first()
        if row is None:
            raise CommandError(f"There is no project {slug!r}")
        return row
