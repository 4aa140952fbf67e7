"""Jobs, their attempts and replicas, and the estimates of their starts."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from agents.contract.egress import EgressPolicy
from portal.accounts.models import Project
from portal.choices import choices_from_enum, enum_check, enum_column
from portal.inventory.models import Node
from portal.jobs.desired_states import DesiredState as DesiredState
from portal.jobs.querysets import (
    CODE_OF_REQUEST,
    AttemptQuerySet,
    DependencyQuerySet,
    JobQuerySet,
    ReplicaQuerySet,
)
from portal.jobs.stop_reasons import StopReason as StopReason
from scheduler.core.model.snapshot import Priority
from scheduler.core.model.states import JobStatus, ReplicaStatus


class Job(models.Model):
    """A request and its state. People call it J-<number>; nodes know it by `uid`.

    The state machine and its only writers are in `portal/jobs/README.md`.
    """

    NOUN = "job"
    newest_event: int | None = None
    """Id of the job's last event, no column: a submit of one job knows it without asking."""

    id = models.BigAutoField(primary_key=True)
    uid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="jobs")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="jobs"
    )
    name = models.CharField(max_length=63)
    kind = models.CharField(max_length=16)
    image = models.CharField(max_length=512)
    request = models.JSONField()
    """The canonical request, as scheduler.core.request writes it. What is queried or counted has a
    column of its own."""
    replica_count = models.PositiveSmallIntegerField(db_column="replicas_wanted")
    cpu_milli = models.PositiveIntegerField()
    memory_mib = models.PositiveIntegerField()
    disk_mib = models.PositiveIntegerField(default=0, editable=False)
    time_limit_seconds = models.PositiveIntegerField()
    priority = models.CharField(
        max_length=8, choices=choices_from_enum(Priority), default=Priority.NORMAL
    )
    infrastructure_retries_left = models.PositiveSmallIntegerField(default=0)
    user_retries_left = models.PositiveSmallIntegerField(default=0)
    status = enum_column(JobStatus, JobStatus.SUBMITTED, max_length=20)
    reason = models.JSONField(null=True, blank=True, editable=False)
    """The one reason object while it waits; afterwards, why it ended."""
    position = models.PositiveIntegerField(null=True, blank=True, editable=False)
    stop_reason = models.CharField(max_length=32, blank=True, default="", editable=False)
    """A StopReason, the first cause of its end."""
    failure_cause = models.CharField(
        max_length=32, blank=True, default="", db_default="", editable=False
    )
    """A FailureCause; empty until a failed job is diagnosed, and for all others."""
    diagnosis = models.JSONField(null=True, blank=True, editable=False)
    """Why it failed and what mends it, as portal.diagnosis.stored writes it."""
    request_id = models.CharField(
        max_length=64, blank=True, default="", db_default="", editable=False
    )
    """Of the call that submitted it; lines of the log about the job name it."""
    submitted_at = models.DateTimeField(auto_now_add=True)
    queued_at = models.DateTimeField(null=True, blank=True, editable=False)
    started_at = models.DateTimeField(null=True, blank=True, editable=False)
    deadline_at = models.DateTimeField(null=True, blank=True, editable=False)
    finished_at = models.DateTimeField(null=True, blank=True, editable=False)
    limit_is_chosen = models.BooleanField(default=True, editable=False)
    preemptible = models.BooleanField(default=False, editable=False)
    begin_at = models.DateTimeField(null=True, blank=True, editable=False)
    after = models.ManyToManyField(
        "self",
        symmetrical=False,
        through="Dependency",
        related_name="followers",
        blank=True,
        editable=False,
    )
    """Jobs that must end first."""
    hold_owner = models.CharField(
        max_length=150, blank=True, default="", editable=False, db_column="held_by"
    )
    hold_reason = models.CharField(
        max_length=200, blank=True, default="", editable=False, db_column="held_because"
    )
    attained_seconds = models.PositiveIntegerField(default=0, editable=False)
    """Running time of earlier attempts up to what each saved, which the time limit counts."""
    resumes = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="resumed_by",
        db_index=False,
        editable=False,
    )
    """The job whose newest checkpoint a retry starts with."""
    preempted = models.PositiveIntegerField(default=0, editable=False)
    """How often it was preempted."""
    bypassed = models.PositiveIntegerField(default=0, editable=False)
    """How often a later job started first."""
    reserved_at = models.DateTimeField(null=True, blank=True, editable=False)
    """The start promised to it: no other job may delay it beyond this time."""
    estimate = models.JSONField(null=True, blank=True, editable=False)
    """When it should start, as portal.planning.estimates writes it; null without a basis."""

    array = models.ForeignKey(
        "arrays.JobArray",
        null=True,
        editable=False,
        on_delete=models.CASCADE,
        related_name="jobs",
        db_index=False,
    )
    """The array that it is a member of."""
    array_index = models.PositiveIntegerField(null=True, editable=False)
    """Its index there; null for a job of no array, and for one that a retry has replaced."""
    array_cap = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    """How many members of its array may run at once; 0 if all. The planner reads it here."""
    is_array_row = models.BooleanField(default=False, db_default=False, editable=False)
    """Whether lists show its array in its place: it is the first member."""

    objects = JobQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)
        constraints = [
            enum_check("status", JobStatus, "job_status"),
            models.UniqueConstraint(
                fields=("array", "array_index"),
                condition=Q(array_index__isnull=False),
                name="job_array_member",
            ),
        ]
        indexes = [
            models.Index(fields=("status", "queued_at"), name="job_queue"),
            models.Index(fields=("project", "-id"), name="job_project"),
            models.Index(fields=("project", "status"), name="job_project_status"),
            models.Index(fields=("owner", "status"), name="job_owner_status"),
            models.Index(fields=("-finished_at",), name="job_finished"),
            models.Index(fields=("started_at",), name="job_started"),
            # Few of all jobs fail; the sweep looks for those without a diagnosis.
            models.Index(
                fields=("failure_cause", "-finished_at"),
                condition=Q(status__in=("failed", "timed_out")),
                name="job_failed",
            ),
            # For names that begin with a word, whatever the database's collation.
            models.Index(fields=("name",), name="job_name", opclasses=("varchar_pattern_ops",)),
            # What ends next, and what becomes free until when.
            models.Index(
                fields=("deadline_at", "id"), condition=Q(status="running"), name="job_running_end"
            ),
            # Few are retries.
            models.Index(
                fields=("resumes",), condition=Q(resumes__isnull=False), name="job_resumes"
            ),
            # Few have code; it is kept as long as they need it.
            models.Index(CODE_OF_REQUEST, condition=Q(request__has_key="code"), name="job_code"),
        ]

    def __str__(self) -> str:
        return f"{self.label} {self.name}"

    @property
    def label(self) -> str:
        return f"J-{self.pk}"

    @property
    def array_label(self) -> str:
        """Of its array, A-5; empty for a job of none."""
        return f"A-{self.array_id}" if self.array_id else ""


OWN_NODES = "own-nodes"
"""The site of Tessera's own nodes."""


class Dependency(models.Model):
    """One job that starts after the end of another."""

    from_job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="dependencies")
    to_job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="dependants")
    """That ends first."""
    requires_success = models.BooleanField(default=True, db_default=True)
    """Whether it has to succeed; else any end is enough."""

    objects = DependencyQuerySet.as_manager()

    class Meta:
        db_table = "jobs_job_after"
        unique_together = (("from_job", "to_job"),)

    def __str__(self) -> str:
        return f"J-{self.from_job_id} after J-{self.to_job_id}"


class Attempt(models.Model):
    """One try at running a job's whole gang. Its id is the fence: it grows with every placement."""

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()
    site = models.CharField(max_length=24, default=OWN_NODES, db_default=OWN_NODES, editable=False)
    """The name of the site that carries it out."""
    silent_since = models.DateTimeField(null=True, blank=True, editable=False)
    """Since when its site, or a node of it, has not answered; null while all do."""
    absent_seconds = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    """How long they did not answer, before that."""
    replica_count = models.PositiveSmallIntegerField(null=True, editable=False)
    """How many of the job's replicas were placed; null of one placed before: as the job says."""
    joined_replicas = models.PositiveSmallIntegerField(default=1, db_default=1, editable=False)
    """How many of the job's replicas each of its own, a container, runs."""
    egress = enum_column(EgressPolicy, EgressPolicy.ALL, db_default=str(EgressPolicy.ALL))
    """What it reaches beyond its gang: as its project said when it was placed."""
    preflight = models.JSONField(null=True, blank=True, editable=False)
    """Of one that checks the network of its gang before the job starts: what it runs, as
    portal.jobs.preflights reads it. Null of all others."""
    created_at = models.DateTimeField()
    saved_at = models.DateTimeField(null=True, blank=True, editable=False)
    """When its last checkpoint arrived: what it ran until then is not lost. Null without one."""
    ended_at = models.DateTimeField(null=True, blank=True)
    outcome = models.CharField(max_length=16, blank=True, default="")
    first_failure = models.JSONField(null=True, blank=True)
    finding = models.JSONField(null=True, blank=True, editable=False)
    """What made it fail, as portal.diagnosis.stored writes it; null until that is known."""

    objects = AttemptQuerySet.as_manager()

    class Meta:
        ordering = ("job", "number")
        constraints = [models.UniqueConstraint(fields=("job", "number"), name="attempt_once")]
        indexes = [
            # Few of all attempts are open; every sweep reads them.
            models.Index(fields=("site",), condition=Q(ended_at__isnull=True), name="attempt_open"),
            # Few fail; every sweep looks for those without a finding.
            models.Index(
                fields=("-ended_at",),
                condition=Q(first_failure__isnull=False),
                name="attempt_failed",
            ),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.job}"

    @property
    def fence(self) -> int:
        return self.pk

    @property
    def world(self) -> int:
        """How many replicas, that is containers, it has."""
        return self.placed_replicas // self.joined_replicas

    @property
    def placed_replicas(self) -> int:
        """How many of the job's replicas it was placed with."""
        return self.replica_count or self.job.replica_count

    @property
    def is_preflight(self) -> bool:
        return self.preflight is not None

    @property
    def is_open(self) -> bool:
        """Its job has not ended, and was not queued again, since it began."""
        return self.ended_at is None


class Replica(models.Model):
    """One container of an attempt, by rank."""

    NOUN = "replica"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="replicas")
    rank = models.PositiveSmallIntegerField()
    node = models.ForeignKey(
        Node, null=True, blank=True, on_delete=models.PROTECT, related_name="replicas"
    )
    """Null at a site that keeps its nodes to itself."""
    desired_state = models.CharField(
        max_length=8,
        choices=DesiredState.choices,
        default=DesiredState.PREPARE,
        db_column="wish",
    )
    status = models.CharField(
        max_length=16,
        choices=choices_from_enum(ReplicaStatus),
        default=ReplicaStatus.PENDING,
        editable=False,
    )
    container = models.CharField(max_length=128, blank=True, default="")
    address = models.CharField(max_length=255, blank=True, default="")
    port = models.PositiveIntegerField(null=True, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    memory_kill = models.BooleanField(default=False)
    code = models.CharField(max_length=64, blank=True, default="")
    sentence = models.CharField(max_length=1024, blank=True, default="")
    log_bytes = models.PositiveBigIntegerField(default=0)
    """How many bytes of its log have arrived."""
    log_removed_at = models.DateTimeField(null=True, blank=True)
    """When retention removed the log; `log_bytes` still says how large it was."""
    gone_revision = models.PositiveBigIntegerField(null=True, blank=True)
    """The node's desired revision from which it is left out. Once the node has applied that and no
    longer lists the replica, its devices are free."""
    stop_revision = models.PositiveBigIntegerField(null=True, blank=True)
    """The desired revision from which it is to stop."""
    ended_unasked = models.BooleanField(default=False)
    """It ended before its node had applied `stop_revision`."""
    pull = models.JSONField(null=True, blank=True, editable=False)
    """While it is being prepared: how far the pull is, as `agents.contract.pulls` writes it."""
    pull_moved_at = models.DateTimeField(null=True, blank=True, editable=False)
    """When that pull, or the fetch of its files, last came further."""
    image_digest = models.CharField(
        max_length=160, blank=True, default="", db_default="", editable=False
    )
    """Which bytes its image is (`agents.contract.image_digest`); rank 0's counts."""
    code_commit = models.CharField(
        max_length=64, blank=True, default="", db_default="", editable=False
    )
    """The commit of its code, where a git repository has it; empty until its node says so."""
    ready_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = ReplicaQuerySet.as_manager()

    class Meta:
        ordering = ("attempt", "rank")
        constraints = [
            enum_check("status", ReplicaStatus, "replica_status"),
            models.UniqueConstraint(fields=("attempt", "rank"), name="replica_once"),
        ]
        indexes = [
            models.Index(
                fields=("node",), condition=Q(gone_revision__isnull=True), name="replica_not_gone"
            )
        ]

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.attempt}"

    @property
    def location(self) -> str:
        """The name of its node, or of its site if that keeps its nodes to itself."""
        return self.node.name if self.node else self.attempt.site


class StartEstimate(models.Model):
    """The first estimate of a job's start, and its actual start, which corrects later estimates.

    `optimistic`, `expected` and `pessimistic` are the 10, 50 and 90 % quantiles of the forecasts.
    """

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="estimates")
    estimated_at = models.DateTimeField(db_column="asked_at")
    optimistic = models.DateTimeField()
    expected = models.DateTimeField()
    pessimistic = models.DateTimeField()
    basis = models.CharField(max_length=200)
    own = models.JSONField(default=list)
    """The three as waits in seconds, as simulated; `calibrated`: corrected by earlier records."""
    calibrated = models.JSONField(default=list)
    kind = models.CharField(max_length=64, blank=True, default="")
    started_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("job", "estimated_at")
        constraints = [
            models.CheckConstraint(
                condition=Q(optimistic__lte=F("expected"), expected__lte=F("pessimistic")),
                name="estimate_in_order",
            )
        ]

    def __str__(self) -> str:
        return f"{self.job}: {self.expected:%Y-%m-%d %H:%M} by {self.basis}"
