"""Rows of jobs by status and by reader. Every list of statuses in a query is written here."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Self, TypeVar

from django.db.models import (
    BigIntegerField,
    Case,
    F,
    Model,
    Q,
    QuerySet,
    Sum,
    TextField,
    Value,
    When,
)
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, Replace

from agents.contract.git_source import PREFIX
from portal.accounts.models import Membership, User
from portal.database.locks import LockingQuerySet
from scheduler.core.model.states import (
    JOB_ALLOCATED,
    JOB_FAILED,
    JOB_FINAL,
    JOB_UNSUCCESSFUL,
    JOB_WAITING,
    NODE_SILENT,
    REPLICA_ENDED,
    JobStatus,
    ReplicaStatus,
)

Row = TypeVar("Row", bound=Model, covariant=True)
# The code tree that a request names, in hexadecimal, as an index of jobs has it.
CODE_OF_REQUEST = Replace(KT("request__code"), Value("-"), Value(""), output_field=TextField())

# What lists show as one row: the key of the array for its members, and for any other job a number
# of its own, below 0.
ROW_KEY = Case(
    When(array_index__isnull=False, then=F("array_id")),
    default=-F("id"),
    output_field=BigIntegerField(),
)


def values_of(statuses: Iterable[StrEnum]) -> list[str]:
    """As a column stores them, in a fixed order, so that equal queries are equal text."""
    return sorted(str(status) for status in statuses)


class JobQuerySet(LockingQuerySet[Row]):
    def queued(self) -> Self:
        """Those that the planner tries to place."""
        return self.filter(status=JobStatus.QUEUED)

    def waiting(self) -> Self:
        """Submitted and not placed: queued, or awaiting approval."""
        return self.filter(status__in=values_of(JOB_WAITING))

    def allocated(self) -> Self:
        """Those that have devices: placed, preparing, running or stopping."""
        return self.filter(status__in=values_of(JOB_ALLOCATED))

    def final(self) -> Self:
        return self.filter(status__in=values_of(JOB_FINAL))

    def not_final(self) -> Self:
        """Those that wait, run, or are about to."""
        return self.exclude(status__in=values_of(JOB_FINAL))

    def with_code(self, tree: object) -> Self:
        """Those whose request names this code; `tree`: its key in hexadecimal, or an expression."""
        return self.with_any_code().filter(code_key=tree)

    def with_any_code(self) -> Self:
        """Those whose request names code, or a repository that has it; `code_key` says which."""
        return self.filter(request__has_key="code").alias(code_key=CODE_OF_REQUEST)

    def with_repository(self) -> Self:
        """Those whose code is in a git repository."""
        # Ids of trees are hexadecimal and so come before it in every order of texts.
        return self.with_any_code().filter(code_key__gte=PREFIX)

    def failed(self) -> Self:
        """Those that ended without success, not by a person's wish: they have a cause."""
        return self.filter(status__in=values_of(JOB_FAILED))

    def with_log_bytes(self) -> Self:
        """Each with `log_bytes`, how much log of all its replicas has arrived."""
        return self.annotate(log_bytes=Coalesce(Sum("attempts__replicas__log_bytes"), 0))

    def count_bypass(self) -> int:
        """Count once more that a later job started before each of these."""
        return self.update(bypassed=F("bypassed") + 1)

    def one_row_per_array(self, heads: Self) -> Self:
        """Without members of arrays; but each array with a member among these once, as its first.

        `heads`: all that the reader may see. Filter no further: the two are joined by OR.
        """
        members = self.filter(array_index__isnull=False)
        arrays = heads.filter(is_array_row=True, array__in=members.order_by().values("array"))
        return self.order_by().filter(array=None) | arrays.order_by()

    def visible_to(self, user: User) -> Self:
        """The jobs of the user's projects; every job for a platform admin."""
        if user.is_platform_admin:
            return self
        return self.filter(project_id__in=Membership.objects.filter(user=user).values("project_id"))


class DependencyQuerySet(QuerySet[Row, Row]):
    def unmet(self) -> Self:
        """Those whose job has not ended as it has to."""
        any_end = Q(requires_success=False, to_job__status__in=values_of(JOB_FINAL))
        return self.exclude(Q(to_job__status=JobStatus.SUCCEEDED) | any_end)

    def failed(self) -> Self:
        """Those whose job had to succeed, and ended otherwise: they will never be met."""
        unsuccessful = values_of(JOB_UNSUCCESSFUL)
        return self.filter(requires_success=True, to_job__status__in=unsuccessful)


def gang_filter(attempt: str = "") -> Q:
    """Attempts of several replicas. `attempt`: the path to them, such as "attempt__"."""
    placed = Q(**{f"{attempt}replica_count__gt": 1})
    # Of an attempt that was placed before this was written.
    unsaid = {f"{attempt}replica_count": None, f"{attempt}job__replica_count__gt": 1}
    return placed | Q(**unsaid)


class AttemptQuerySet(QuerySet[Row, Row]):
    def open(self) -> Self:
        return self.filter(ended_at__isnull=True)

    def failed(self) -> Self:
        """Those that have ended with a failure, whether or not their job was tried again."""
        return self.filter(first_failure__isnull=False, ended_at__isnull=False)

    def with_log_bytes(self) -> Self:
        """Each with `log_bytes`, how much log of its replicas has arrived."""
        return self.annotate(log_bytes=Coalesce(Sum("replicas__log_bytes"), 0))


class ReplicaQuerySet(LockingQuerySet[Row]):
    def live(self) -> Self:
        """Those that have not ended, as far as their nodes have reported."""
        return self.exclude(status__in=values_of(REPLICA_ENDED))

    def first_of_running_jobs(self) -> Self:
        """Rank 0 of the open attempt of each running job, on Tessera's own nodes."""
        rows = self.filter(rank=0, status=ReplicaStatus.RUNNING, node__isnull=False)
        return rows.filter(attempt__ended_at__isnull=True, attempt__job__status=JobStatus.RUNNING)

    def on_silent_nodes(self) -> Self:
        """Those of nodes that do not report."""
        return self.filter(node__status__in=values_of(NODE_SILENT))
