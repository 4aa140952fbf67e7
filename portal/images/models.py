"""Images as rows: those that need something of the node that runs them."""

from datetime import timedelta

from django.db import models

from agents.contract.image_needs import MAX_ARCHITECTURE_LENGTH

# A tag gets another image in time, which may need less.
VALIDITY = timedelta(days=7)


class ImageNeed(models.Model):
    """What an image needs, as `agents.contract.image_needs` describes it."""

    # As jobs name it.
    image = models.CharField(max_length=512, unique=True)
    requirements = models.JSONField(default=list)
    architecture = models.CharField(max_length=MAX_ARCHITECTURE_LENGTH, blank=True, default="")
    # When a node last found it so; it counts for VALIDITY.
    seen_at = models.DateTimeField()

    class Meta:
        ordering = ("image",)
        indexes = [models.Index(fields=("seen_at",), name="image_need_seen")]

    def __str__(self) -> str:
        return self.image
