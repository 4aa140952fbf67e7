"""Templates of requests, and the images that a project may use."""

from enum import StrEnum

from django.db import models
from django.db.models import Q

from portal.accounts.models import Project
from portal.choices import choices_from_enum, enum_check


class ImageRule(StrEnum):
    """Which of the images that the platform allows a project may use."""

    ANY = "any"
    # Only those on the project's list.
    LISTED = "listed"


class Template(models.Model):
    """A named request that users can start from."""

    # Null: a template for every project.
    project = models.ForeignKey(
        Project, null=True, blank=True, on_delete=models.CASCADE, related_name="templates"
    )
    name = models.CharField(max_length=63)
    description = models.CharField(max_length=200, blank=True, default="")
    # The canonical request without the fields of a single job (`services.PER_JOB_FIELDS`).
    request = models.JSONField()
    # A user name.
    author = models.CharField(max_length=150, editable=False, db_column="made_by")
    # Counts changes.
    version = models.PositiveIntegerField(default=1, editable=False)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("name", "id")
        constraints = [
            models.UniqueConstraint(fields=("project", "name"), name="template_once"),
            models.UniqueConstraint(
                fields=("name",), condition=Q(project__isnull=True), name="template_of_all_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.project}" if self.project else self.name


class ImagePolicy(models.Model):
    """Which images the jobs of a project may use. A project without a row may use any."""

    project = models.OneToOneField(Project, on_delete=models.CASCADE, related_name="image_policy")
    rule = models.CharField(
        max_length=8, choices=choices_from_enum(ImageRule), default=ImageRule.ANY
    )
    # Image names, in which * stands for any characters.
    patterns = models.JSONField(default=list, blank=True)
    version = models.PositiveIntegerField(default=1, editable=False)

    class Meta:
        ordering = ("project",)
        verbose_name_plural = "image policies"
        constraints = [enum_check("rule", ImageRule, "image_rule")]

    def __str__(self) -> str:
        return f"images of {self.project}: {self.rule}"
