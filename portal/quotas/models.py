"""How much a project, or one user in it, may hold at once (quota) and use over time (budget),
requests for more, and the planner's policy. Amounts are units: 1/56,000 of a GPU."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from portal.accounts.models import Project
from portal.choices import choices_from_enum, enum_check
from portal.database.locks import LockingQuerySet
from scheduler.core.model import policy


class QuotaQuerySet(LockingQuerySet["Quota"]):
    def applying_to(self, project_id: int, user_id: int) -> Self:
        """The quotas, of any GPU model, that count what this user holds in this project."""
        return self.applying_to_any([(project_id, user_id)])

    def applying_to_any(self, owners: Iterable[tuple[int, int]]) -> Self:
        """The same for several owners, each a project and a user in it."""
        users: dict[int, set[int]] = defaultdict(set)
        for project_id, user_id in owners:
            users[project_id].add(user_id)
        applying = Q(pk__in=())
        for project_id, user_ids in users.items():
            applies = Q(user__isnull=True) | Q(user_id__in=user_ids)
            applying |= applies & Q(project_id=project_id)
        return self.filter(applying)


class Quota(models.Model):
    """Units that a project, or one user in it, may hold at once.

    A project may hold more than its limit: up to `borrow_units` of what other projects leave idle
    and lend. Whether it may do so now is the planner's decision.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="quotas")
    # Null: the project as a whole.
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="quotas",
    )
    # Count only GPUs of this model, such as "H200". Empty: of every model.
    model = models.CharField(max_length=128, blank=True, default="")
    limit_units = models.PositiveBigIntegerField()
    # A user's row has the value of the project's row: users borrow with their project.
    borrow_units = models.PositiveBigIntegerField(default=0)
    # The most of its idle units that the project lends to others.
    lend_units = models.PositiveBigIntegerField(default=0)
    # What the database enforces: limit and borrowing together, or what was already allocated when
    # an admin lowered them. Falls back as work ends.
    guard_units = models.PositiveBigIntegerField()
    # Units of live allocations; written only by `portal.quotas.services`.
    used_units = models.PositiveBigIntegerField(default=0)
    version = models.PositiveIntegerField(default=1)

    objects = QuotaQuerySet.as_manager()

    class Meta:
        ordering = ("project", "user", "model")
        constraints = [
            models.UniqueConstraint(
                fields=("project", "model"),
                condition=Q(user__isnull=True),
                name="quota_project_once",
            ),
            models.UniqueConstraint(fields=("project", "user", "model"), name="quota_user_once"),
            models.CheckConstraint(
                condition=Q(used_units__lte=F("guard_units")), name="quota_not_exceeded"
            ),
        ]

    def __str__(self) -> str:
        of = f" of {self.model}" if self.model else ""
        return f"{self.user or 'all'} in {self.project}{of}: {self.limit_units}"


class BudgetQuerySet(models.QuerySet["Budget"]):
    def current(self, now: datetime) -> Self:
        """The budgets whose time has begun and not ended."""
        return self.filter(starts_at__lte=now, ends_at__gt=now)


class Budget(models.Model):
    """Unit-seconds that a project, or one user in it, may use from `starts_at` to `ends_at`.

    Usage is the sum of allocations (`portal.allocations.budgets`); no counter is stored.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="budgets")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="budgets",
    )
    limit_unit_seconds = models.PositiveBigIntegerField()
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()

    objects = BudgetQuerySet.as_manager()

    class Meta:
        ordering = ("project", "user", "starts_at")
        constraints = [
            models.CheckConstraint(condition=Q(ends_at__gt=F("starts_at")), name="budget_interval")
        ]

    def __str__(self) -> str:
        return f"{self.user or 'all'} in {self.project} until {self.ends_at:%Y-%m-%d}"


class LimitRequestStatus(StrEnum):
    OPEN = "open"
    GRANTED = "granted"
    DECLINED = "declined"


class LimitRequest(models.Model):
    """A user's request that an admin raise the quota, budget or cap that a job waits for."""

    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="limit_requests")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="limit_requests")
    asker = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="limit_requests"
    )
    # The code of the reason why the job waits.
    code = models.CharField(max_length=32)
    # Whose limit, and for which GPU model. Null: the project's. Empty: every model.
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    model = models.CharField(max_length=128, blank=True, default="")
    # The quota with which the job would fit. Null: a budget or cap, which an admin changes by hand.
    limit_units = models.PositiveBigIntegerField(null=True, blank=True)
    note = models.CharField(max_length=200, blank=True, default="")
    status = models.CharField(
        max_length=8,
        choices=choices_from_enum(LimitRequestStatus),
        default=str(LimitRequestStatus.OPEN),
    )
    answer = models.CharField(max_length=200, blank=True, default="")
    decider = models.CharField(max_length=150, blank=True, default="")
    created_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("id",)
        constraints = [
            enum_check("status", LimitRequestStatus, "limit_request_status"),
            models.UniqueConstraint(
                fields=("job",), condition=Q(status="open"), name="limit_request_open_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.asker} for {self.job}: {self.status}"


_DEFAULTS = policy.Policy()


class PlannerPolicy(models.Model):
    """The planner's options, in one row (id 1): see `scheduler.core.model.policy.Policy`."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    order = models.CharField(
        max_length=16, choices=choices_from_enum(policy.OrderMode), default=str(_DEFAULTS.order)
    )
    backfill = models.CharField(
        max_length=16,
        choices=choices_from_enum(policy.BackfillMode),
        default=str(_DEFAULTS.backfill),
    )
    preemption = models.CharField(
        max_length=16,
        choices=choices_from_enum(policy.PreemptionMode),
        default=str(_DEFAULTS.preemption),
    )
    quota_preemption = models.CharField(
        max_length=16,
        choices=choices_from_enum(policy.QuotaPreemption),
        default=str(_DEFAULTS.quota_preemption),
        db_default=str(_DEFAULTS.quota_preemption),
    )
    merge = models.BooleanField(default=_DEFAULTS.merge)
    warm = models.BooleanField(default=_DEFAULTS.warm)
    reservations = models.PositiveSmallIntegerField(default=_DEFAULTS.reservations)
    hysteresis = models.FloatField(default=_DEFAULTS.hysteresis)
    protection_seconds = models.PositiveIntegerField(default=_DEFAULTS.protection_seconds)
    patience_seconds = models.PositiveIntegerField(default=_DEFAULTS.patience_seconds)
    bypass_limit = models.PositiveIntegerField(default=_DEFAULTS.bypass_limit)
    moves = models.PositiveSmallIntegerField(default=_DEFAULTS.moves)
    half_life_seconds = models.PositiveIntegerField(default=_DEFAULTS.half_life_seconds)
    version = models.PositiveIntegerField(default=1, editable=False)

    class Meta:
        verbose_name_plural = "planner policy"
        constraints = [
            models.CheckConstraint(condition=Q(id=1), name="policy_is_one"),
            enum_check("order", policy.OrderMode, "policy_order"),
            enum_check("backfill", policy.BackfillMode, "policy_backfill"),
            enum_check("preemption", policy.PreemptionMode, "policy_preemption"),
            enum_check("quota_preemption", policy.QuotaPreemption, "policy_quota_preemption"),
            models.CheckConstraint(
                condition=Q(
                    hysteresis__gte=1,
                    patience_seconds__gte=1,
                    bypass_limit__gte=1,
                    half_life_seconds__gte=1,
                ),
                name="policy_bounds",
            ),
        ]

    def __str__(self) -> str:
        return f"planner policy, version {self.version}"
