"""Which bytes exist and where. These rows are the truth: a store that has other bytes is wrong."""

from django.db import models


class ByteStore(models.Model):
    """A place that holds objects: a folder of one host, or a bucket."""

    key = models.CharField(max_length=255, unique=True)
    """`folder:<id>`, where the id lies in the folder itself, or `s3:` and the location."""
    host = models.CharField(max_length=255, blank=True, default="")
    """The host that registered the folder; empty for a bucket."""
    location = models.CharField(max_length=1024)
    """The path or the URL, for people."""
    used_at = models.DateTimeField()
    """When bytes were last recorded in it, to within `USED_EVERY`."""

    class Meta:
        ordering = ("pk",)

    def __str__(self) -> str:
        return f"{self.host}:{self.location}" if self.host else self.location


class Segment(models.Model):
    """Consecutive bytes of a stream, kept as one object or as a part of one."""

    id = models.BigAutoField(primary_key=True)
    stream = models.CharField(max_length=255)
    start = models.PositiveBigIntegerField()
    size = models.PositiveIntegerField()
    crc32 = models.PositiveBigIntegerField()
    newlines = models.PositiveIntegerField()
    arrivals = models.BinaryField(default=b"")
    """Offsets and times of arrivals, packed by `portal.storage.arrivals`."""
    store = models.ForeignKey(ByteStore, on_delete=models.PROTECT, related_name="segments")
    object_name = models.CharField(max_length=255)
    object_offset = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering = ("stream", "start")
        constraints = [
            models.UniqueConstraint(fields=("stream", "start"), name="segment_once"),
        ]

    def __str__(self) -> str:
        return f"{self.stream} from {self.start}, {self.size} bytes"

    @property
    def end(self) -> int:
        return self.start + self.size
