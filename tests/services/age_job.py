"""Has a running job begun half an hour earlier, and rings the planner: run as a program beside a
running stack, with the label of the job.

Prints how many there were.
"""

import os
import sys
from datetime import timedelta

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
django.setup()

from django.db.models import F  # noqa: E402 - after setup

from portal.jobs.models import Job  # noqa: E402 - after setup
from portal.live.bell import ring_plan  # noqa: E402 - after setup
from scheduler.core.pass_growth import GROW_SECONDS  # noqa: E402 - after setup


def main(label: str) -> None:
    earlier = F("started_at") - timedelta(seconds=GROW_SECONDS + 1)
    rows = Job.objects.filter(pk=int(label.removeprefix("J-")), started_at__isnull=False)
    print(rows.update(started_at=earlier))
    ring_plan()


if __name__ == "__main__":
    main(sys.argv[1])
