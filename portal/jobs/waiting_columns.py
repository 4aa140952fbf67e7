"""Writes what people read about waiting jobs: reasons, positions and estimates of thousands of
them, in one statement."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import connection, transaction
from django.db.models import JSONField

from portal.jobs.models import Job
from portal.live.bell import QUEUE, ring
from scheduler.core.model.states import JobStatus

# Rows of one transaction, so that nobody waits long for one of them.
BATCH_SIZE = 1_000
TABLE = Job._meta.db_table
# Each reads the new values from one JSON document.
STATEMENTS = {
    "postgresql": f"UPDATE {TABLE} AS job SET {{postgresql}} "  # noqa: S608 - names of columns
    "FROM jsonb_to_recordset(%s) AS new (id bigint, {types}) "
    "WHERE job.id = new.id AND job.status = %s",
    "sqlite": f"UPDATE {TABLE} AS job SET {{sqlite}} "  # noqa: S608 - names of columns
    "FROM json_each(%s) AS new "
    "WHERE job.id = json_extract(new.value, '$.id') AND job.status = %s",
}


def waiting_columns_write(values: Mapping[int, Mapping[str, Any]]) -> None:
    """Set columns of queued jobs, by job id; each has the same columns. Rings the queue's bell.

    A job that another transaction changes at the moment is left as it is: the next pass writes it,
    if it still waits then. So this waits for nobody, and cannot deadlock.
    """
    for batch in _batches(sorted(values)):
        with transaction.atomic():
            jobs = Job.objects.queued().filter(pk__in=batch).lock_keys(skip_locked=True)
            if jobs:
                _update({pk: values[pk] for pk in jobs})
                ring(QUEUE)


def _batches(keys: list[int]) -> Iterable[list[int]]:
    return (keys[start : start + BATCH_SIZE] for start in range(0, len(keys), BATCH_SIZE))


def _update(values: Mapping[int, Mapping[str, Any]]) -> None:
    columns = list(next(iter(values.values())))
    rows = json.dumps([{"id": pk} | dict(row) for pk, row in values.items()])
    with connection.cursor() as cursor:
        cursor.execute(_statement(columns), [rows, JobStatus.QUEUED])


def _statement(columns: list[str]) -> str:
    is_json = {name: isinstance(Job._meta.get_field(name), JSONField) for name in columns}
    return STATEMENTS[connection.vendor].format(
        postgresql=", ".join(f"{name} = new.{name}" for name in columns),
        types=", ".join(f"{name} {'jsonb' if is_json[name] else 'bigint'}" for name in columns),
        sqlite=", ".join(f"{name} = json_extract(new.value, '$.{name}')" for name in columns),
    )
