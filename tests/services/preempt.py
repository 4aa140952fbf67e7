"""Commits a plan that stops one running job for another: run as a program beside a running stack.

Prints whether the job was asked to stop.
"""

import json
import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
django.setup()

from scheduler.commit.preemptions import preemption_commit  # noqa: E402 - after setup
from scheduler.core.model.decisions import Preemption, PreemptionCause  # noqa: E402


def main(victim: str, other: str) -> None:
    ids = [label.removeprefix("J-") for label in (victim, other)]
    print(json.dumps(preemption_commit(Preemption(*ids, PreemptionCause.PRIORITY))))


if __name__ == "__main__":
    main(*sys.argv[1:])
