"""Users, projects, memberships with a role, and API tokens."""

from enum import StrEnum

from django.contrib.auth.models import AbstractUser
from django.core.validators import RegexValidator
from django.db import models
from knox.models import AbstractAuthToken

from agents.contract.egress import EgressPolicy
from portal.choices import choices_from_enum, enum_check, enum_column


class Role(StrEnum):
    VIEWER = "viewer"
    MEMBER = "member"
    ADMIN = "admin"


class TokenScope(StrEnum):
    """What an API token may do. Each includes the ones before it."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


class User(AbstractUser):  # type: ignore[django-manager-missing]  # knox has no types
    """A person. `is_superuser` makes a platform admin."""

    language = models.CharField(max_length=10, blank=True, default="")
    # A name such as "Europe/Berlin"; empty: as the browser says.
    time_zone = models.CharField(max_length=64, blank=True, default="", db_default="")
    # The person's permanent id in the organisation's directory; null for others.
    directory_id = models.CharField(max_length=200, null=True, blank=True, unique=True)

    @property
    def is_platform_admin(self) -> bool:
        return self.is_active and self.is_superuser


class Project(models.Model):
    """A team. Every job belongs to one project."""

    slug = models.CharField(
        max_length=40,
        unique=True,
        validators=[RegexValidator(r"^[a-z0-9][a-z0-9-]*\Z", "Use a-z, 0-9 and hyphens.")],
    )
    name = models.CharField(max_length=100)
    members = models.ManyToManyField(User, through="Membership", related_name="projects")
    # An archived project takes no new jobs; its history stays readable.
    archived = models.BooleanField(default=False)
    # The project's fair share, relative to other projects.
    weight = models.PositiveSmallIntegerField(default=1)
    # Caps on running and waiting jobs; 0 for none.
    max_running = models.PositiveIntegerField(default=0)
    max_pending = models.PositiveIntegerField(default=0)
    # A job above one of these waits for an admin's approval; null for no threshold. The third is
    # units times the time limit.
    approval_units = models.PositiveBigIntegerField(null=True, blank=True)
    approval_seconds = models.PositiveIntegerField(null=True, blank=True)
    approval_unit_seconds = models.PositiveBigIntegerField(null=True, blank=True)
    # Jobs of high priority wait for an approval as well.
    approval_high = models.BooleanField(default=False)
    # What its jobs reach beyond their gang: attempts that are placed from now on.
    egress = enum_column(EgressPolicy, EgressPolicy.ALL, db_default=str(EgressPolicy.ALL))
    # Nobody opens a terminal in one of its jobs.
    bars_terminals = models.BooleanField(default=False, db_default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("slug",)
        constraints = [
            models.CheckConstraint(condition=models.Q(weight__gte=1), name="project_weight")
        ]

    def __str__(self) -> str:
        return self.slug


class Membership(models.Model):
    """A user in a project, with a role. Weight and caps apply to the user within the project."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=choices_from_enum(Role))
    weight = models.PositiveSmallIntegerField(default=1)
    max_running = models.PositiveIntegerField(default=0)
    max_pending = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=("project", "user"), name="membership_once"),
            enum_check("role", Role, "membership_role"),
            models.CheckConstraint(condition=models.Q(weight__gte=1), name="membership_weight"),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.project}: {self.role}"


class ApiToken(AbstractAuthToken):
    """A token for REST and the CLI. It is shown once; only its digest is stored."""

    name = models.CharField(max_length=64)
    scope = models.CharField(
        max_length=10, choices=choices_from_enum(TokenScope), default=TokenScope.WRITE
    )
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta(AbstractAuthToken.Meta):
        verbose_name, verbose_name_plural = "API token", "API tokens"
