"""The same submit sent by several at the same moment under one key, again and again: run as a
program against PostgreSQL.

Prints how many jobs each key made, which statuses were answered, and how many keys had two
different answers.
"""

import json
import os
import sys
import threading
from collections import Counter

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
django.setup()

from django.db import connection  # noqa: E402 - after setup
from rest_framework.test import APIClient  # noqa: E402

from portal.accounts.models import User  # noqa: E402
from portal.jobs.models import Job  # noqa: E402
from tests.support.rows import a_node, a_project, a_request, a_user  # noqa: E402

CALLERS = 4


def main(rounds: int) -> None:
    olga = a_user("olga")
    project = a_project("vision", olga)
    a_node("only")
    made: Counter[int] = Counter()
    statuses: Counter[int] = Counter()
    torn = 0
    for number in range(rounds):
        key, before = f"key-{number}", Job.objects.count()
        told = _race(olga, a_request(project), key)
        made[Job.objects.count() - before] += 1
        statuses.update(status for status, _ in told)
        torn += len({job for _, job in told if job}) != 1
    print(json.dumps({"made": made, "statuses": statuses, "torn": torn}))


def _race(user: User, body: dict[str, object], key: str) -> list[tuple[int, str]]:
    """(status, job) of callers that all start at the same moment."""
    start = threading.Barrier(CALLERS)
    told: list[tuple[int, str]] = []

    def run() -> None:
        client = APIClient(HTTP_HOST="localhost")
        client.force_authenticate(user)
        headers = {"Idempotency-Key": key}
        start.wait()
        try:
            answer = client.post("/api/v1/jobs", body, format="json", headers=headers)
            told.append((answer.status_code, answer.json().get("id", "")))
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


if __name__ == "__main__":
    main(int(sys.argv[1]))
