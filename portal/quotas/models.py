"""How much a project, or one user inside it, may hold at once and use in a time, and how the
planner shares it out. Integer units of 1/56,000 GPU."""

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from portal.accounts.models import Project
from portal.inventory.models import one_of, words
from scheduler.core.model import policy


class Quota(models.Model):
    """`user` null: the whole project. `model`: GPUs of this model, such as "H200"; empty: of every
    one. `used_units` counts live allocations.

    A project may hold up to `borrow_units` beyond its limit of what others lend, each at most its
    `lend_units` of what it leaves idle; whether it may now is the planner's to say. A user borrows
    with the project: the row of a user has the project's `borrow_units`.

    `guard_units` is what the database enforces: limit and borrow_units together, or what was
    already held when an admin lowered them. It falls back as work ends.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="quotas")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="quotas",
    )
    model = models.CharField(max_length=128, blank=True, default="")
    limit_units = models.PositiveBigIntegerField()
    borrow_units = models.PositiveBigIntegerField(default=0)
    lend_units = models.PositiveBigIntegerField(default=0)
    guard_units = models.PositiveBigIntegerField()
    used_units = models.PositiveBigIntegerField(default=0)
    version = models.PositiveIntegerField(default=1)

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


def quotas_of(project_id: int, user_id: int) -> models.QuerySet[Quota]:
    """The quotas that an allocation of this user in this project counts against, of any model."""
    mine = Q(user__isnull=True) | Q(user_id=user_id)
    return Quota.objects.filter(mine, project_id=project_id)


class Budget(models.Model):
    """Unit-seconds that a project, or one user in it, may use from `starts_at` to `ends_at`.

    How much is used is summed from allocations, never counted here.
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

    class Meta:
        ordering = ("project", "user", "starts_at")
        constraints = [
            models.CheckConstraint(condition=Q(ends_at__gt=F("starts_at")), name="budget_interval")
        ]

    def __str__(self) -> str:
        return f"{self.user or 'all'} in {self.project} until {self.ends_at:%Y-%m-%d}"


_BY_DEFAULT = policy.Policy()


class PlannerPolicy(models.Model):
    """The one row (id 1) of what the planner may do; see `scheduler.core.model.policy.Policy`."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    order = models.CharField(
        max_length=16, choices=words(policy.OrderMode), default=str(_BY_DEFAULT.order)
    )
    backfill = models.CharField(
        max_length=16, choices=words(policy.BackfillMode), default=str(_BY_DEFAULT.backfill)
    )
    preemption = models.CharField(
        max_length=16, choices=words(policy.PreemptionMode), default=str(_BY_DEFAULT.preemption)
    )
    merge = models.BooleanField(default=_BY_DEFAULT.merge)
    warm = models.BooleanField(default=_BY_DEFAULT.warm)
    reservations = models.PositiveSmallIntegerField(default=_BY_DEFAULT.reservations)
    hysteresis = models.FloatField(default=_BY_DEFAULT.hysteresis)
    protection_seconds = models.PositiveIntegerField(default=_BY_DEFAULT.protection_seconds)
    patience_seconds = models.PositiveIntegerField(default=_BY_DEFAULT.patience_seconds)
    bypass_limit = models.PositiveIntegerField(default=_BY_DEFAULT.bypass_limit)
    moves = models.PositiveSmallIntegerField(default=_BY_DEFAULT.moves)
    half_life_seconds = models.PositiveIntegerField(default=_BY_DEFAULT.half_life_seconds)
    version = models.PositiveIntegerField(default=1, editable=False)

    class Meta:
        verbose_name_plural = "planner policy"
        constraints = [
            models.CheckConstraint(condition=Q(id=1), name="policy_is_one"),
            one_of("order", policy.OrderMode, "policy_order"),
            one_of("backfill", policy.BackfillMode, "policy_backfill"),
            one_of("preemption", policy.PreemptionMode, "policy_preemption"),
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
