"""Sensor samples of a node: the latest of each GPU is stored, and accepted every few seconds."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from agents.contract.codec import encode
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.telemetry import GpuSample, TelemetryRequest, TelemetryResponse
from portal.database.kept_queries import KeptSelect
from portal.inventory.credentials import node_authenticate
from portal.inventory.models import DisputedClaim, Gpu, LatestSample, Node
from portal.telemetry.job_samples import samples_record

_NODES = KeptSelect(
    lambda node: Node.objects.filter(pk=node).defer("desired", "facts", "topology"), Node._meta.pk
)


def telemetry_accept(*, authorization: str, request: TelemetryRequest) -> TelemetryResponse:
    """Store the samples of the node's own GPUs.

    Raises ContractError: `too_frequent` too soon after the last call, and `invalid_field` for a GPU
    that is not the node's, or not known yet: the next report brings it.
    """
    now = timezone.now()
    with transaction.atomic():
        node = node_authenticate(_NODES, authorization=authorization, epoch=request.epoch)
        samples = _once_each(request.samples)
        _turn_take(node, now)
        gpus = dict(Gpu.objects.filter(node=node, uuid__in=samples).values_list("uuid", "pk"))
        if foreign := sorted(_foreign(node, set(samples) - set(gpus))):
            sentence = f"{foreign[0]} is not a GPU of this node: a node speaks for its own only"
            raise ContractError(ContractErrorCode.INVALID_FIELD, sentence, "samples.uuid")
        samples = {uuid: sample for uuid, sample in samples.items() if uuid in gpus}
        taken_at = now - timedelta(milliseconds=request.age_ms)
        rows = (
            LatestSample(gpu_id=gpus[uuid], taken_at=taken_at, sample=encode(sample))
            for uuid, sample in samples.items()
        )
        LatestSample.objects.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["gpu"],
            update_fields=["taken_at", "sample"],
        )
        samples_record(node, samples, taken_at)
    return TelemetryResponse(next_seconds=settings.PLATFORM.telemetry_seconds)


def _foreign(node: Node, uuids: set[str]) -> set[str]:
    """Of these GPUs of other nodes, those that the node does not claim. A disputed GPU may be in
    its machine: only its samples are left out, and those of the node's own GPUs count."""
    if not uuids:
        return uuids
    claims = DisputedClaim.objects.current().filter(claimant=node, gpu__uuid__in=uuids)
    return uuids - set(claims.values_list("gpu__uuid", flat=True))


def _once_each(samples: tuple[GpuSample, ...]) -> dict[str, GpuSample]:
    """By UUID, in a fixed order, so that two calls never wait for each other's rows."""
    found = {sample.uuid: sample for sample in sorted(samples, key=lambda s: s.uuid)}
    if len(found) < len(samples):
        raise ContractError(
            ContractErrorCode.INVALID_FIELD, "the same GPU appears twice", "samples.uuid"
        )
    return found


def _turn_take(node: Node, now: datetime) -> None:
    """Of two calls at the same time, the database lets one through."""
    interval = timedelta(seconds=settings.PLATFORM.telemetry_seconds)
    is_due = (
        Q(telemetry_at=None)
        | Q(telemetry_at__lte=now - interval)
        | Q(telemetry_at__gt=now + interval)
    )
    if Node.objects.filter(is_due, pk=node.pk).update(telemetry_at=now):
        return
    left = interval - (now - node.telemetry_at) if node.telemetry_at else interval
    seconds = max(1, -(-left // timedelta(seconds=1)))
    sentence = f"samples are taken every {interval.seconds} s: send the next in {seconds} s"
    raise ContractError(ContractErrorCode.TOO_FREQUENT, sentence, "", {"retry_seconds": seconds})
