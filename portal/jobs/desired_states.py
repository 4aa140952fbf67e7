"""What the portal wants of replicas."""

from django.db import models


class DesiredState(models.TextChoices):
    """What the portal wants of a replica; `gone` ones are left out of the desired document."""

    PREPARE = "prepare"
    RUN = "run"
    STOP = "stop"
    GONE = "gone"
