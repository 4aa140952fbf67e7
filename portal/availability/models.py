"""What the planning worker counted last."""

from django.db import models

# The primary key of the one row.
ROW_ID = 1


class PublishedCounts(models.Model):
    """What is free as the last planning pass left it. At most one row, on a large cluster only."""

    published_at = models.DateTimeField()
    document = models.TextField()

    class Meta:
        verbose_name_plural = "published counts"
        constraints = [
            models.CheckConstraint(condition=models.Q(id=ROW_ID), name="published_counts_are_one")
        ]

    def __str__(self) -> str:
        return f"counts of {self.published_at:%Y-%m-%d %H:%M:%S}"
