"""Work that exactly one worker may do at a time, such as planning: a lease with a token."""

from django.db import models


class Duty(models.Model):
    """`rung` asks the present holder, or the next, for one more round. `stamped_at`: last done."""

    name = models.CharField(max_length=32, primary_key=True)
    token = models.CharField(max_length=36, blank=True, default="")
    expires_at = models.DateTimeField(null=True, blank=True)
    rung = models.BooleanField(default=False)
    stamped_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "duties"

    def __str__(self) -> str:
        return self.name
