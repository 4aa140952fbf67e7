"""Who may do what: users, projects, memberships with a role, and API tokens."""

from enum import StrEnum

from django.contrib.auth.models import AbstractUser
from django.core.validators import RegexValidator
from django.db import models
from knox.models import AbstractAuthToken


class Role(StrEnum):
    VIEWER = "viewer"
    MEMBER = "member"
    ADMIN = "admin"


class TokenScope(StrEnum):
    """What a token may do. Each includes the ones before it."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


class User(AbstractUser):  # type: ignore[django-manager-missing]  # knox has no types
    """A person. `is_superuser` is the platform admin. `directory_id` is who that is in the
    organisation's directory; null for everybody else."""

    language = models.CharField(max_length=10, blank=True, default="")
    directory_id = models.CharField(max_length=200, null=True, blank=True, unique=True)

    @property
    def is_platform_admin(self) -> bool:
        return self.is_active and self.is_superuser


class Project(models.Model):
    """A team. Every job belongs to one.

    `weight`: its share among projects. `max_running` and `max_pending`: jobs at once, 0 = any
    number. A job that holds more units than `approval_units`, may run longer than
    `approval_seconds` or use more than `approval_unit_seconds` (both together) waits for an admin;
    null = none does. With `approval_high`, so does one of priority high.
    """

    slug = models.CharField(
        max_length=40,
        unique=True,
        validators=[RegexValidator(r"^[a-z0-9][a-z0-9-]*\Z", "Use a-z, 0-9 and hyphens.")],
    )
    name = models.CharField(max_length=100)
    members = models.ManyToManyField(User, through="Membership", related_name="projects")
    archived = models.BooleanField(default=False)
    weight = models.PositiveSmallIntegerField(default=1)
    max_running = models.PositiveIntegerField(default=0)
    max_pending = models.PositiveIntegerField(default=0)
    approval_units = models.PositiveBigIntegerField(null=True, blank=True)
    approval_seconds = models.PositiveIntegerField(null=True, blank=True)
    approval_unit_seconds = models.PositiveBigIntegerField(null=True, blank=True)
    approval_high = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("slug",)
        constraints = [
            models.CheckConstraint(condition=models.Q(weight__gte=1), name="project_weight")
        ]

    def __str__(self) -> str:
        return self.slug


class Membership(models.Model):
    """A user in a project: the role, and what `Project` has of the same names, for this user."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=[(r.value, r.value) for r in Role])
    weight = models.PositiveSmallIntegerField(default=1)
    max_running = models.PositiveIntegerField(default=0)
    max_pending = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=("project", "user"), name="membership_once"),
            models.CheckConstraint(
                condition=models.Q(role__in=[r.value for r in Role]), name="membership_role"
            ),
            models.CheckConstraint(condition=models.Q(weight__gte=1), name="membership_weight"),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.project}: {self.role}"


class ApiToken(AbstractAuthToken):
    """A token for REST and the CLI: only its digest is stored; it is shown once."""

    name = models.CharField(max_length=64)
    scope = models.CharField(
        max_length=10, choices=[(s.value, s.value) for s in TokenScope], default=TokenScope.WRITE
    )
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta(AbstractAuthToken.Meta):
        verbose_name, verbose_name_plural = "API token", "API tokens"
