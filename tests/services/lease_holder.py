"""A worker under a lease, in the middle of a query that never ends: run as a program.

    python -m tests.services.lease_holder NAME LIMIT

It prints `begun` once the work has begun. After LIMIT seconds (0: never) Celery's soft time limit
strikes within the query, as a signal; it prints `limit` then, and stays alive like a worker.
"""

import os
import signal
import sys
import time

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
django.setup()

from celery.exceptions import SoftTimeLimitExceeded  # noqa: E402
from django.db import connection  # noqa: E402

from portal.leases.services import run_exclusively  # noqa: E402


def strike(*_: object) -> None:
    raise SoftTimeLimitExceeded


def work() -> None:
    print("begun", flush=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(600)")


def main(name: str, limit: float) -> None:
    signal.signal(signal.SIGALRM, strike)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        run_exclusively(name=name, work=work)
    except SoftTimeLimitExceeded:
        print("limit", flush=True)
        time.sleep(600)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
