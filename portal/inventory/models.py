"""The cluster's hardware: nodes, their GPUs, the slices on them, and the claims on GPU memory."""

import uuid
from typing import Self

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Q

from agents.contract.documents import GpuMode, SliceKind
from portal.choices import choices_from_enum, enum_check
from portal.database.locks import LockingQuerySet
from scheduler.core.model.states import (
    ALLOCATION_LIVE,
    NODE_SILENT,
    SLICE_LIVE,
    GpuHealth,
    NodeStatus,
    SliceStatus,
)

NODE_NAME = RegexValidator(r"^[a-z0-9][a-z0-9.-]*\Z", "Use a-z, 0-9, dots and hyphens.")


LIVE_SLICE_STATUSES = [str(status) for status in sorted(SLICE_LIVE)]
LIVE_ALLOCATION_STATUSES = [str(status) for status in sorted(ALLOCATION_LIVE)]
SILENT_NODE_STATUSES = [str(status) for status in sorted(NODE_SILENT)]


class NodeQuerySet(LockingQuerySet["Node"]):
    def active(self) -> Self:
        """Every node that is not retired."""
        return self.exclude(status=NodeStatus.RETIRED)

    def schedulable(self) -> Self:
        """Online and not cordoned. A node may still block itself: see `facts["blocks"]`."""
        return self.filter(status=NodeStatus.ONLINE, schedulable=True)

    def silent(self) -> Self:
        """Those that do not report: unreachable or lost."""
        return self.filter(status__in=SILENT_NODE_STATUSES)


class Node(models.Model):
    """A server with an agent."""

    NOUN = "node"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=64, unique=True, validators=[NODE_NAME])
    status = models.CharField(
        max_length=16,
        choices=choices_from_enum(NodeStatus),
        default=NodeStatus.ENROLLED,
        editable=False,
    )
    schedulable = models.BooleanField(default=True)
    cordon_reason = models.CharField(max_length=200, blank=True, default="")
    cordon_actor = models.CharField(max_length=150, blank=True, default="", db_column="cordon_by")
    # Jobs may require these, such as "nvme" or "zone=a".
    labels = models.JSONField(default=list, blank=True, editable=False)
    # Only jobs that tolerate every taint run here.
    taints = models.JSONField(default=list, blank=True, editable=False)
    taint_reason = models.CharField(max_length=200, blank=True, default="", editable=False)
    public_key = models.CharField(max_length=64, blank=True, default="", editable=False)
    epoch = models.PositiveBigIntegerField(default=0, editable=False)
    token_digest = models.CharField(max_length=64, blank=True, default="", editable=False)
    # Of the previous session: a call with it is answered with `epoch_stale`.
    replaced_token_digest = models.CharField(max_length=64, blank=True, default="", editable=False)
    token_expires_at = models.DateTimeField(null=True, blank=True, editable=False)
    boot_id = models.CharField(max_length=64, blank=True, default="", editable=False)
    # An admin took its key away; a new enrolment ends this.
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)
    # Two machines used its key in turn; an admin ends this.
    frozen_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_seen_at = models.DateTimeField(null=True, blank=True, editable=False)
    # Since when it has been in contact without a gap; null: since before this was noted.
    contact_since = models.DateTimeField(null=True, blank=True, editable=False)
    # By the portal's clock: the latest moment at which the agent may believe itself in contact.
    lease_until = models.DateTimeField(null=True, blank=True, editable=False)
    # Number of the desired document; it grows with every change.
    revision = models.PositiveBigIntegerField(default=0, editable=False)
    applied_revision = models.PositiveBigIntegerField(default=0, editable=False)
    # The whole desired document, as the agent gets it.
    desired = models.JSONField(default=dict, editable=False)
    # What it depends on has changed, with no other trace in the rows, since it was last compiled.
    drive_due = models.BooleanField(default=False, db_default=False, editable=False)
    allow_mass_removal = models.BooleanField(default=False, editable=False)
    # The database was restored: until the node has reported what it runs, it gets no document.
    restored_at = models.DateTimeField(null=True, blank=True, editable=False)
    # It runs what its document does not name: see `portal.allocations.holding`.
    holding_since = models.DateTimeField(null=True, blank=True, editable=False)
    # What its document would end, as `HeldReplica` in JSON.
    held_replicas = models.JSONField(default=list, blank=True, editable=False)
    observed_hash = models.CharField(max_length=64, blank=True, default="", editable=False)
    acked_seq = models.PositiveBigIntegerField(default=0, editable=False)
    # The token bucket of its events: its level at that time; null while it is full.
    event_level = models.FloatField(null=True, blank=True, editable=False)
    event_level_at = models.DateTimeField(null=True, blank=True, editable=False)
    # Events dropped so far, and when the node's history last recorded it.
    events_dropped = models.PositiveBigIntegerField(default=0, editable=False)
    events_dropped_at = models.DateTimeField(null=True, blank=True, editable=False)
    telemetry_at = models.DateTimeField(null=True, blank=True, editable=False)
    facts = models.JSONField(default=dict, editable=False)
    topology = models.JSONField(default=dict, editable=False)
    fabric = models.CharField(max_length=128, blank=True, default="", editable=False)
    cpu_milli = models.PositiveIntegerField(default=0, editable=False)
    memory_mib = models.PositiveIntegerField(default=0, editable=False)
    disk_mib = models.PositiveIntegerField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = NodeQuerySet.as_manager()

    class Meta:
        ordering = ("name",)
        constraints = [enum_check("status", NodeStatus, "node_status")]

    def __str__(self) -> str:
        return self.name

    @property
    def is_document_withheld(self) -> bool:
        """It gets no desired document: first its report has to be compared with the document, or an
        admin has to allow what the document would end."""
        is_undecided = self.holding_since is not None and not self.allow_mass_removal
        return is_undecided or self.restored_at is not None


class InventoryVersion(models.Model):
    """How often what a node is has changed. Only triggers write it: see portal.inventory.version.

    A node that was deleted keeps its row, so that the sum of all never falls.
    """

    node_id = models.UUIDField(primary_key=True)
    number = models.PositiveBigIntegerField()

    def __str__(self) -> str:
        return f"{self.node_id}: {self.number}"


class JoinToken(models.Model):
    """A single-use token for a node's first contact. Only its digest is stored."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="join_tokens")
    digest = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"join token of {self.node}"


class HelloNonce(models.Model):
    """A nonce that a node has used, stored for as long as its hello could be replayed."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="nonces")
    nonce = models.CharField(max_length=64)
    boot_id = models.CharField(max_length=64, blank=True, default="")
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=("node", "nonce"), name="nonce_once")]

    def __str__(self) -> str:
        return self.nonce


class GpuQuerySet(LockingQuerySet["Gpu"]):
    def active(self) -> Self:
        """Those of every node that is not retired."""
        return self.exclude(node__status=NodeStatus.RETIRED)

    def healthy(self) -> Self:
        return self.filter(health=GpuHealth.OK)

    def in_service(self) -> Self:
        """Healthy and used by no foreign process. Says nothing about the node."""
        return self.healthy().filter(busy="")


class Gpu(models.Model):
    """One physical GPU. The node moves its observed mode to the desired one."""

    NOUN = "gpu"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="gpus")
    uuid = models.CharField(max_length=96, unique=True)
    index = models.PositiveSmallIntegerField()
    board = models.CharField(max_length=128)
    product_name = models.CharField(max_length=128)
    memory_mib = models.PositiveIntegerField()
    desired_mode = models.CharField(
        max_length=8, choices=choices_from_enum(GpuMode), default=GpuMode.WHOLE, editable=False
    )
    observed_mode = models.CharField(
        max_length=8, choices=choices_from_enum(GpuMode), default=GpuMode.WHOLE, editable=False
    )
    health = models.CharField(
        max_length=16, choices=choices_from_enum(GpuHealth), default=GpuHealth.OK, editable=False
    )
    health_reason = models.CharField(max_length=512, blank=True, default="", editable=False)
    pci_bus_id = models.CharField(max_length=32, blank=True, default="")
    numa_node = models.SmallIntegerField(null=True, blank=True)
    # MIG profiles that the driver reports for a board without a table: ObservedProfile as JSON.
    profiles = models.JSONField(default=list, editable=False)
    # A foreign process, which keeps the GPU from being allocated.
    busy = models.CharField(max_length=128, blank=True, default="", editable=False)
    # The one project whose MPS shares are on the GPU, and what the shares take together.
    sharing_project = models.ForeignKey(
        "accounts.Project",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        editable=False,
        db_column="shared_by_id",
    )
    shared_threads = models.PositiveSmallIntegerField(default=0, editable=False)
    shared_memory_mib = models.PositiveIntegerField(default=0, editable=False)
    # An admin keeps the partitions of the GPU as they are.
    pinned = models.BooleanField(default=False, editable=False)
    pin_actor = models.CharField(
        max_length=150, blank=True, default="", editable=False, db_column="pinned_by"
    )
    pin_reason = models.CharField(
        max_length=200, blank=True, default="", editable=False, db_column="pinned_because"
    )
    # The GPU was carved or merged recently; until then its idle slices stay.
    settles_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = GpuQuerySet.as_manager()

    class Meta:
        ordering = ("node", "index")
        verbose_name, verbose_name_plural = "GPU", "GPUs"
        constraints = [
            models.CheckConstraint(
                condition=Q(shared_threads__lte=100, shared_memory_mib__lte=F("memory_mib")),
                name="gpu_shares_fit",
            ),
            models.CheckConstraint(
                condition=Q(shared_threads=0, sharing_project=None)
                | Q(shared_threads__gt=0, sharing_project__isnull=False, desired_mode=GpuMode.MPS),
                name="gpu_shares_alone",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.node} GPU {self.index}"


class DisputedClaimQuerySet(models.QuerySet["DisputedClaim"]):
    def current(self) -> Self:
        """Those that are still reported."""
        return self.filter(withdrawn_at=None)

    def undecided(self) -> Self:
        """Those that need an admin: still reported, and not dismissed."""
        return self.current().filter(dismissed_at=None)


class DisputedClaim(models.Model):
    """A node reports a GPU that another node holds. See `portal.inventory.disputes`."""

    gpu = models.ForeignKey(Gpu, on_delete=models.CASCADE, related_name="disputes")
    claimant = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="disputed_claims")
    claimed_at = models.DateTimeField()
    # The claimant no longer reports the GPU.
    withdrawn_at = models.DateTimeField(null=True, blank=True)
    # An admin left the GPU with its holder.
    dismissed_at = models.DateTimeField(null=True, blank=True)
    dismiss_actor = models.CharField(max_length=150, blank=True, default="")

    objects = DisputedClaimQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)
        constraints = [
            models.UniqueConstraint(fields=("gpu", "claimant"), name="gpu_disputed_once")
        ]

    def __str__(self) -> str:
        return f"{self.claimant} claims {self.gpu}"


class LatestSample(models.Model):
    """The latest sensor sample of a GPU. Older samples are not stored."""

    gpu = models.OneToOneField(Gpu, on_delete=models.CASCADE, related_name="latest_sample")
    # By the portal's clock, less the age that the node reports.
    taken_at = models.DateTimeField()
    # `agents.contract.telemetry.GpuSample` as JSON.
    sample = models.JSONField()

    def __str__(self) -> str:
        return f"sample of {self.gpu}"


class SliceQuerySet(LockingQuerySet["Slice"]):
    def live(self) -> Self:
        """Planned, on the GPU or being deleted: everything that still claims memory."""
        return self.filter(status__in=LIVE_SLICE_STATUSES)

    def idle(self) -> Self:
        """Ready, and not allocated."""
        # By the reverse relation: the model of allocations belongs to a layer above this one.
        return self.filter(status=SliceStatus.READY).exclude(
            allocations__status__in=LIVE_ALLOCATION_STATUSES
        )


class Slice(models.Model):
    """A device that one container can be given: a whole GPU, a MIG slice or an MPS share."""

    NOUN = "slice"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    gpu = models.ForeignKey(Gpu, on_delete=models.CASCADE, related_name="slices")
    kind = models.CharField(max_length=8, choices=choices_from_enum(SliceKind))
    profile = models.CharField(max_length=32, blank=True, default="")
    # Position and length on the GPU, in memory slices.
    start = models.PositiveSmallIntegerField(default=0)
    size = models.PositiveSmallIntegerField(default=1)
    memory_mib = models.PositiveIntegerField()
    units = models.PositiveIntegerField()
    # An MPS share: percent of the SMs, and the number of client processes. 0 otherwise.
    threads = models.PositiveSmallIntegerField(default=0)
    clients = models.PositiveSmallIntegerField(default=0)
    status = models.CharField(
        max_length=16,
        choices=choices_from_enum(SliceStatus),
        default=SliceStatus.PLANNED,
        editable=False,
    )
    # The driver's name of the device; a slice that is carved again gets a new one.
    device_uuid = models.CharField(max_length=96, blank=True, default="", editable=False)
    problem = models.CharField(max_length=512, blank=True, default="", editable=False)
    busy = models.CharField(max_length=128, blank=True, default="", editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    ready_at = models.DateTimeField(null=True, blank=True, editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = SliceQuerySet.as_manager()

    class Meta:
        ordering = ("gpu", "start")
        constraints = [
            enum_check("status", SliceStatus, "slice_status"),
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
                condition=Q(status__in=LIVE_SLICE_STATUSES),
            )
        ]

    def __str__(self) -> str:
        if self.threads:
            return f"{self.threads} % of {self.gpu}"
        return f"{self.profile or self.kind} at {self.start} of {self.gpu}"


class SlotClaim(models.Model):
    """A live slice's claim on one memory slice of a GPU. Its unique key prevents double booking."""

    gpu = models.ForeignKey(Gpu, on_delete=models.CASCADE, related_name="claims")
    slot = models.PositiveSmallIntegerField()
    slice = models.ForeignKey(Slice, on_delete=models.CASCADE, related_name="claims")

    class Meta:
        constraints = [models.UniqueConstraint(fields=("gpu", "slot"), name="slot_claimed_once")]

    def __str__(self) -> str:
        return f"slot {self.slot} of {self.gpu}"
