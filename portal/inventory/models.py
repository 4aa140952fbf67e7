"""What is there: nodes, their GPUs, the slices on them, and who claims which memory slice."""

import uuid

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Q

from agents.contract.documents import GpuMode, SliceKind
from scheduler.core.model.states import SLICE_LIVE, GpuHealth, NodeStatus, SliceStatus

NODE_NAME = RegexValidator(r"^[a-z0-9][a-z0-9.-]*\Z", "Use a-z, 0-9, dots and hyphens.")


def words(enum: type) -> list[tuple[str, str]]:
    """A StrEnum as Django choices."""
    return [(str(word), str(word)) for word in enum]  # type: ignore[attr-defined]  # StrEnum iterates


def one_of(field: str, enum: type, name: str) -> models.CheckConstraint:
    """A database CHECK that a status column holds a word of its enum."""
    known = [value for value, _ in words(enum)]
    return models.CheckConstraint(condition=Q(**{f"{field}__in": known}), name=name)


class Node(models.Model):
    """A server with an agent. `desired` is the whole document it is told; `revision` its number.

    `lease_until`: by our clock, the latest moment at which the agent may believe itself in contact.
    `labels`: what jobs may ask for, such as "nvme" or "zone=a". Only jobs that tolerate every one
    of its `taints` come here; `taint_reason` says why it has some.
    """

    NOUN = "node"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=64, unique=True, validators=[NODE_NAME])
    status = models.CharField(
        max_length=16, choices=words(NodeStatus), default=NodeStatus.ENROLLED, editable=False
    )
    schedulable = models.BooleanField(default=True)
    cordon_reason = models.CharField(max_length=200, blank=True, default="")
    cordon_by = models.CharField(max_length=150, blank=True, default="")
    labels = models.JSONField(default=list, blank=True, editable=False)
    taints = models.JSONField(default=list, blank=True, editable=False)
    taint_reason = models.CharField(max_length=200, blank=True, default="", editable=False)
    public_key = models.CharField(max_length=64, blank=True, default="", editable=False)
    epoch = models.PositiveBigIntegerField(default=0, editable=False)
    token_digest = models.CharField(max_length=64, blank=True, default="", editable=False)
    token_expires_at = models.DateTimeField(null=True, blank=True, editable=False)
    boot_id = models.CharField(max_length=64, blank=True, default="", editable=False)
    last_seen_at = models.DateTimeField(null=True, blank=True, editable=False)
    lease_until = models.DateTimeField(null=True, blank=True, editable=False)
    revision = models.PositiveBigIntegerField(default=0, editable=False)
    applied_revision = models.PositiveBigIntegerField(default=0, editable=False)
    desired = models.JSONField(default=dict, editable=False)
    allow_mass_removal = models.BooleanField(default=False, editable=False)
    observed_hash = models.CharField(max_length=64, blank=True, default="", editable=False)
    acked_seq = models.PositiveBigIntegerField(default=0, editable=False)
    telemetry_at = models.DateTimeField(null=True, blank=True, editable=False)
    facts = models.JSONField(default=dict, editable=False)
    topology = models.JSONField(default=dict, editable=False)
    fabric = models.CharField(max_length=128, blank=True, default="", editable=False)
    cpu_milli = models.PositiveIntegerField(default=0, editable=False)
    memory_mib = models.PositiveIntegerField(default=0, editable=False)
    disk_mib = models.PositiveIntegerField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("name",)
        constraints = [one_of("status", NodeStatus, "node_status")]

    def __str__(self) -> str:
        return self.name


class JoinToken(models.Model):
    """A single-use ticket for a node's first contact. Only its digest is kept."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="join_tokens")
    digest = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"join token of {self.node}"


class HelloNonce(models.Model):
    """A nonce that a node has used, kept while a replay of its hello could still be in time."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="nonces")
    nonce = models.CharField(max_length=64)
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=("node", "nonce"), name="nonce_once")]

    def __str__(self) -> str:
        return self.nonce


class Gpu(models.Model):
    """One physical device. Desired and observed mode are apart: the node moves one to the other.

    `profiles`: what the driver tells of a board that no table has (ObservedProfile as JSON).
    `busy`: a process that belongs to no job and keeps the GPU from being given out.
    `shared_*`: what its MPS shares take together, and the one project that they are of.
    `pinned`: an admin keeps its partitions as they are. `settles_at`: when it was carved or merged
    long enough ago to be partitioned anew.
    """

    NOUN = "gpu"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="gpus")
    uuid = models.CharField(max_length=96, unique=True)
    index = models.PositiveSmallIntegerField()
    board = models.CharField(max_length=128)
    product_name = models.CharField(max_length=128)
    memory_mib = models.PositiveIntegerField()
    desired_mode = models.CharField(
        max_length=8, choices=words(GpuMode), default=GpuMode.WHOLE, editable=False
    )
    observed_mode = models.CharField(
        max_length=8, choices=words(GpuMode), default=GpuMode.WHOLE, editable=False
    )
    health = models.CharField(
        max_length=16, choices=words(GpuHealth), default=GpuHealth.OK, editable=False
    )
    health_reason = models.CharField(max_length=512, blank=True, default="", editable=False)
    pci_bus_id = models.CharField(max_length=32, blank=True, default="")
    numa_node = models.SmallIntegerField(null=True, blank=True)
    profiles = models.JSONField(default=list, editable=False)
    busy = models.CharField(max_length=128, blank=True, default="", editable=False)
    shared_by = models.ForeignKey(
        "accounts.Project", on_delete=models.PROTECT, null=True, blank=True, editable=False
    )
    shared_threads = models.PositiveSmallIntegerField(default=0, editable=False)
    shared_memory_mib = models.PositiveIntegerField(default=0, editable=False)
    pinned = models.BooleanField(default=False, editable=False)
    pinned_by = models.CharField(max_length=150, blank=True, default="", editable=False)
    pinned_because = models.CharField(max_length=200, blank=True, default="", editable=False)
    settles_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ("node", "index")
        verbose_name, verbose_name_plural = "GPU", "GPUs"
        constraints = [
            models.CheckConstraint(
                condition=Q(shared_threads__lte=100, shared_memory_mib__lte=F("memory_mib")),
                name="gpu_shares_fit",
            ),
            models.CheckConstraint(
                condition=Q(shared_threads=0, shared_by=None)
                | Q(shared_threads__gt=0, shared_by__isnull=False, desired_mode=GpuMode.MPS),
                name="gpu_shares_alone",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.node} GPU {self.index}"


class LatestSample(models.Model):
    """What the sensors of a GPU said last: `agents.contract.telemetry.GpuSample` as JSON.

    `taken_at` by our clock, less the age that the node gave. Older samples are not kept.
    """

    gpu = models.OneToOneField(Gpu, on_delete=models.CASCADE, related_name="latest_sample")
    taken_at = models.DateTimeField()
    sample = models.JSONField()

    def __str__(self) -> str:
        return f"sample of {self.gpu}"


class Slice(models.Model):
    """The device that one container is given. `start` and `size` count memory slices; an MPS share
    has `threads` (percent of the SMs) and `clients` (processes) instead of a place.

    `device_uuid` is what the driver calls it now; it changes whenever the slice is made again.
    """

    NOUN = "slice"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    gpu = models.ForeignKey(Gpu, on_delete=models.CASCADE, related_name="slices")
    kind = models.CharField(max_length=8, choices=words(SliceKind))
    profile = models.CharField(max_length=32, blank=True, default="")
    start = models.PositiveSmallIntegerField(default=0)
    size = models.PositiveSmallIntegerField(default=1)
    memory_mib = models.PositiveIntegerField()
    units = models.PositiveIntegerField()
    threads = models.PositiveSmallIntegerField(default=0)
    clients = models.PositiveSmallIntegerField(default=0)
    status = models.CharField(
        max_length=16, choices=words(SliceStatus), default=SliceStatus.PLANNED, editable=False
    )
    device_uuid = models.CharField(max_length=96, blank=True, default="", editable=False)
    problem = models.CharField(max_length=512, blank=True, default="", editable=False)
    busy = models.CharField(max_length=128, blank=True, default="", editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    ready_at = models.DateTimeField(null=True, blank=True, editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ("gpu", "start")
        constraints = [
            one_of("status", SliceStatus, "slice_status"),
            models.CheckConstraint(
                condition=Q(kind=SliceKind.MPS, threads__range=(1, 100), clients__gte=1)
                | (~Q(kind=SliceKind.MPS) & Q(threads=0, clients=0)),
                name="slice_share",
            ),
        ]
        indexes = [
            models.Index(
                fields=("gpu",),
                name="slice_live",
                condition=Q(status__in=[str(s) for s in sorted(SLICE_LIVE)]),
            )
        ]

    def __str__(self) -> str:
        if self.threads:
            return f"{self.threads} % of {self.gpu}"
        return f"{self.profile or self.kind} at {self.start} of {self.gpu}"


class SlotClaim(models.Model):
    """A live slice's hold on one memory slice of a GPU. Double booking stops at its unique key."""

    gpu = models.ForeignKey(Gpu, on_delete=models.CASCADE, related_name="claims")
    slot = models.PositiveSmallIntegerField()
    slice = models.ForeignKey(Slice, on_delete=models.CASCADE, related_name="claims")

    class Meta:
        constraints = [models.UniqueConstraint(fields=("gpu", "slot"), name="slot_claimed_once")]

    def __str__(self) -> str:
        return f"slot {self.slot} of {self.gpu}"
